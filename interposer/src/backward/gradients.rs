//! Finds the blocks of parameters and of their gradients: the nodes that accumulate gradients point to them after they
//! have run.
//!
//! ```text
//! AccumulateGrad ─ variable ─► TensorImpl ─┬─ storage ─► StorageImpl ─ data ─► a parameter's block
//!                                          └─ autograd ─► AutogradMeta ─ grad ─► TensorImpl ─ … ─► a gradient's block
//! ```
//! Each object on the path is checked the first time: that it is mapped, and of the expected class. After that, the
//! address of its vtable is sufficient.

use gpumem_capture::{ApiId, Role};

use super::RunningNode;
use super::known::Known;
use super::memory::{self, field};
use super::node::{Node, is_of_class, path_to_block};
use super::objects::gradient_at;
use crate::session::Session;
use crate::tensors::roles::Told;
use crate::thread;

/// Records the roles of the blocks after a node has run. For nodes that do not accumulate gradients this costs two
/// comparisons.
#[inline]
pub(crate) fn ran(run: &Option<RunningNode>, api: ApiId) {
    let (Some(run), Some(session)) = (run, super::session()) else {
        return;
    };
    let node = run.node();
    match session.nodes.gradients.0.get() {
        Some(known) if known.node == node.class => {
            let layout = session.nodes.layout();
            // SAFETY: a node of a known class, which has run just now and is held by who had it run.
            if let Some(variable) = unsafe { field(node.address, layout.variable) } {
                tell(session, known, variable, api);
            }
        }
        Some(_) => {}
        None => first(session, node, api),
    }
}

#[cold]
#[inline(never)]
fn first(session: &'static Session, node: Node, api: ApiId) {
    if session.nodes.is_refuted() {
        return;
    }
    let Some(variable) = node.variable(session.nodes.layout()) else {
        return;
    };
    if let Some(found) = learn(node, variable) {
        let known = session.nodes.gradients.0.get_or_init(|| found);
        tell(session, known, variable, api);
    }
}

/// None if an object on the path is not of the expected class. Nothing can be learnt from a parameter without a block
/// of its storage.
fn learn(node: Node, variable: usize) -> Option<Known> {
    let (path, _) = path_to_block(variable)?;
    // The autograd metadata comes after the storage.
    let autograd = memory::word(variable.checked_add(path[0] + 8)?)?;
    let class = memory::word(autograd)?;
    if !is_of_class(class, b"N5torch8autograd12AutogradMetaE") {
        return None;
    }
    Some(Known {
        node: node.class,
        tensor: memory::word(variable)?,
        autograd: class,
        path,
        gradient: gradient_at(autograd)?,
    })
}

/// Records the roles of the parameter's block and its gradient's, if they were not recorded yet.
fn tell(session: &'static Session, known: &Known, variable: usize, api: ApiId) {
    let of = |role, data: Option<usize>| tell_block(session, role, data, api);
    of(Role::PARAMETER, known.data(variable));
    of(
        Role::GRADIENT,
        known.gradient(variable).and_then(|it| known.data(it)),
    );
}

fn tell_block(session: &'static Session, role: Role, data: Option<usize>, api: ApiId) {
    let Some(ptr) = data.map(|data| data as u64) else {
        return;
    };
    if let Some(device) = session.tensors.note_role(ptr, role) {
        let told = Told {
            ptr,
            device,
            role,
            by_framework: false,
        };
        let _ = thread::in_hook(|thread| told.record(thread, api));
    }
}
