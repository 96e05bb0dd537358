//! The autograd node that runs on the calling thread, and its data for allocations.

use core::cell::Cell;

use gpumem_capture::StackId;
use gpumem_python_frames::{Finding, finding};
use gpumem_stacks::thread_static;

use super::made::{self, Forward};
use super::node::{self, Node};
use crate::session::Session;
use crate::stacks::{self, Backward};

/// The run of a node.
pub(crate) struct RunningNode {
    node: Node,
    /// The thread's newest Python frame at the start of the run; 0 for none.
    base: usize,
    /// The creator of the node, once it was looked up.
    forward: Cell<Option<Forward>>,
    /// The stack id for allocations of the node without a Python stack of the thread, once it was
    /// determined; none before.
    alone: Cell<StackId>,
    /// The outer run on the same thread.
    outer: *const RunningNode,
}

thread_static! {
    /// The innermost run of this thread; null for none.
    fn place() -> *const RunningNode as "gpumem_run";
}

#[inline(always)]
fn innermost() -> *const RunningNode {
    // SAFETY: the word is this thread's alone, and lives as long as the thread.
    unsafe { *place() }
}

fn set_innermost(run: *const RunningNode) {
    // SAFETY: as above.
    unsafe { *place() = run };
}

impl RunningNode {
    /// A run of the node at `address` that begins now; None if there is no object.
    ///
    /// # Safety
    /// PyTorch is about to evaluate the node at `address`, and does so only while this value exists.
    pub(super) unsafe fn new(address: usize) -> Option<Self> {
        Some(Self {
            // SAFETY: promised by the caller.
            node: unsafe { Node::at(address) }?,
            base: match finding() {
                Some(Finding::Readable(runtime)) => runtime.newest(),
                _ => 0,
            },
            forward: Cell::new(None),
            alone: Cell::new(StackId::NONE),
            outer: innermost(),
        })
    }

    /// Sets it as the running one on this thread, until the result is dropped.
    pub(super) fn enter(&self) -> Entered<'_> {
        set_innermost(self);
        Entered(self)
    }

    /// The node.
    #[inline]
    pub(super) fn node(&self) -> Node {
        self.node
    }

    /// The number of Python frames of the thread that are newer than the run: the node's own code.
    pub(super) fn newer(&self) -> usize {
        match finding() {
            Some(Finding::Readable(runtime)) => runtime.newer_than(self.base),
            _ => 0,
        }
    }

    /// The creator of the node.
    pub(super) fn forward(&self, session: &'static Session) -> Forward {
        if let Some(known) = self.forward.get() {
            return known;
        }
        let found = made::look_up(session, self.node);
        self.forward.set(Some(found));
        found
    }

    /// The stack id for allocations of the node now, where the thread's own stack is `own`.
    #[inline]
    pub(super) fn stack(&self, session: &'static Session, own: StackId) -> StackId {
        let alone = self.alone.get();
        if own == StackId::NONE && alone != StackId::NONE {
            return alone;
        }
        let made = self.made(session, own);
        if own == StackId::NONE {
            self.alone.set(made);
        }
        made
    }

    /// The same, looked up.
    #[inline(never)]
    fn made(&self, session: &'static Session, own: StackId) -> StackId {
        let Forward { stack, lost } = self.forward(session);
        let class = self.node.class;
        // Frames that do not exist, were cut off or could not be defined own nothing.
        let newer = match own {
            StackId::NONE => 0,
            _ => self.newer() as u32,
        };
        let made = Backward {
            forward: stack,
            lost,
            own,
            newer,
            class,
        };
        stacks::backward(session, &made, |room| node::class_name(class, room))
    }
}

/// While it exists, a node runs on this thread; it is dropped by an exception as well.
pub(crate) struct Entered<'a>(&'a RunningNode);

impl Drop for Entered<'_> {
    fn drop(&mut self) {
        set_innermost(self.0.outer);
    }
}

/// The innermost node that runs on this thread, if any.
#[inline]
pub(super) fn current() -> Option<&'static RunningNode> {
    let run = innermost();
    // SAFETY: null, or a run that has been entered and not left: it lies on this thread's stack below
    // the caller, who keeps no reference beyond its own return.
    unsafe { run.as_ref() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_nest_and_end_with_an_exception() {
        let object = [8usize; 8];
        let address = object.as_ptr() as usize;
        let is = |run: &RunningNode| current().is_some_and(|current| core::ptr::eq(current, run));
        assert!(current().is_none());
        // SAFETY: laid out as a node begins, and nothing more of it is read.
        let outer = unsafe { RunningNode::new(address) }.unwrap();
        let entered = outer.enter();
        assert!(is(&outer));
        let left = std::panic::catch_unwind(|| {
            // SAFETY: as above.
            let inner = unsafe { RunningNode::new(address) }.unwrap();
            let _entered = inner.enter();
            assert!(is(&inner));
            std::panic::resume_unwind(Box::new(()));
        });
        assert!(left.is_err() && is(&outer));
        std::thread::spawn(|| assert!(current().is_none()))
            .join()
            .unwrap();
        drop(entered);
        assert!(current().is_none());
    }
}
