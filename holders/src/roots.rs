//! What keeps objects alive by itself: variables of frames that run, namespaces of modules, exceptions that are being
//! handled.

use rustc_hash::FxHashSet;

use crate::frames::{Codes, Frames};
use crate::heap::{Heap, Id};
use crate::object::{bases, kind};
use crate::python::Locked;

/// A root and one object that it refers to.
#[derive(Clone, Debug)]
pub(crate) struct Root {
    pub(crate) object: Id,
    pub(crate) what: What,
    /// Whether it belongs to the program's own code: such roots come first.
    pub(crate) is_own: bool,
}

/// The kind of a root.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum What {
    /// A variable of a frame that runs: the frame's number, and the variable's.
    Local(usize, usize),
    /// The namespace of a frame that runs: the frame's number.
    Body(usize),
    /// The namespace of a module.
    Module(String),
    /// An exception that is being handled.
    Handled,
    /// Native code, or a value with which the frame of this number works.
    Native(Option<usize>),
    /// Nothing: a cycle that a collection would free.
    Cycle,
}

impl What {
    /// The number of the frame that has the root.
    pub(crate) fn frame(&self) -> Option<usize> {
        match self {
            Self::Local(frame, _) | Self::Body(frame) => Some(*frame),
            _ => None,
        }
    }

    /// Whether its object has names.
    pub(crate) fn is_namespace(&self) -> bool {
        matches!(self, Self::Module(_) | Self::Body(_))
    }
}

/// Finds the roots.
pub(crate) fn find(
    locked: &Locked<'_>,
    heap: &Heap,
    frames: &Frames,
    codes: &mut Codes,
) -> Vec<Root> {
    let mut roots = Vec::new();
    modules(locked, heap, &mut roots);
    let mut modules: FxHashSet<Id> = roots.iter().map(|root| root.object).collect();
    for (number, frame) in frames.all.iter().enumerate() {
        let code = codes.get(locked, frame.locals.code);
        for variable in 0..code.variables.len() {
            // SAFETY: a live frame's variable, with the lock.
            let value = unsafe { frame.locals.get(variable) };
            if let Some(object) = value.and_then(|value| heap.number(value.object)) {
                roots.push(Root {
                    object,
                    what: What::Local(number, variable),
                    is_own: code.is_own,
                });
            }
        }
        let [global, own] = frame.locals.namespaces;
        // That of a module that is no longer listed.
        let unlisted = heap.number(global).filter(|object| modules.insert(*object));
        let unlisted = unlisted.and_then(|object| {
            let name = locked.module_name(global)?;
            Some((object, What::Module(name)))
        });
        let own = heap.number(own).filter(|_| own != global);
        let own = own.map(|object| (object, What::Body(number)));
        for (object, what) in own.into_iter().chain(unlisted) {
            roots.push(Root {
                object,
                what,
                is_own: code.is_own,
            });
        }
    }
    for state in &frames.threads {
        // SAFETY: a live thread's state, with the lock.
        unsafe {
            locked.runtime.handled_by(*state, |exception| {
                if let Some(object) = heap.number(exception) {
                    roots.push(Root {
                        object,
                        what: What::Handled,
                        is_own: false,
                    });
                }
            });
        }
    }
    roots
}

fn modules(locked: &Locked<'_>, heap: &Heap, roots: &mut Vec<Root>) {
    let python = &locked.python;
    // SAFETY: with the lock; a borrowed dictionary.
    let modules = unsafe { (python.PyImport_GetModuleDict)() };
    locked.entries(modules, |name, module| {
        let Some(name) = locked.text(name) else {
            return true;
        };
        let namespace = match bases(kind(module)).any(|class| class == python.PyModule_Type) {
            // SAFETY: a live module; its namespace is borrowed.
            true => unsafe { (python.PyModule_GetDict)(module) },
            false => module,
        };
        if let Some(object) = heap.number(namespace) {
            roots.push(Root {
                object,
                is_own: name == "__main__" || locked.is_own_namespace(namespace),
                what: What::Module(name),
            });
        }
        true
    });
}
