//! What keeps objects alive by itself: variables of running frames, namespaces of modules, exceptions that are being
//! handled.

use gpumem_python_frames::{Locals, Runtime};

use crate::heap::{Heap, Id};
use crate::python::{Locked, Object, clean, kind};

/// A root and one object that it refers to.
#[derive(Clone, Debug)]
pub(crate) struct Root {
    pub(crate) object: Id,
    pub(crate) what: What,
    /// Whether it is of the program's own code: such roots come first.
    pub(crate) is_own: bool,
}

/// The kind of a root.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum What {
    /// A variable of a running frame: the frame's number, and the variable's name.
    Local(usize, String),
    /// The namespace of a module.
    Module(String),
    /// An exception that is being handled.
    Handled,
    /// Native code, or a value that a running frame works with.
    Native,
    /// Nothing: a cycle that a collection would free.
    Cycle,
}

/// All roots and the frames of local variables.
#[derive(Debug, Default)]
pub(crate) struct Roots {
    pub(crate) all: Vec<Root>,
    /// The text of each frame: `main (train.py:31)`.
    pub(crate) frames: Vec<String>,
}

/// The maximum depth of a stack, and number of threads.
const FRAMES: usize = 2000;
const THREADS: usize = 512;

/// Finds the roots.
pub(crate) fn find(locked: &Locked, runtime: &Runtime, heap: &Heap) -> Roots {
    let mut roots = Roots::default();
    frames(locked, runtime, heap, &mut roots);
    handled(locked, heap, &mut roots);
    modules(locked, heap, &mut roots);
    roots
}

fn frames(locked: &Locked, runtime: &Runtime, heap: &Heap, roots: &mut Roots) {
    let python = &locked.python;
    // SAFETY: with the lock; the list of threads changes only under it or while a thread that starts waits for it.
    unsafe {
        let mut state = (python.PyInterpreterState_ThreadHead)((python.PyInterpreterState_Main)());
        let mut threads = 0;
        while state != 0 && threads < THREADS {
            let mut count = 0;
            runtime.frames_of(state, |locals| {
                count += 1;
                if count <= FRAMES {
                    frame(locked, runtime, heap, roots, &locals);
                }
            });
            state = (python.PyThreadState_Next)(state);
            threads += 1;
        }
    }
}

fn frame(locked: &Locked, runtime: &Runtime, heap: &Heap, roots: &mut Roots, locals: &Locals) {
    let is_own = is_of_program(locked, locals);
    let number = roots.frames.len();
    roots.frames.push(frame_text(locked, locals));
    for (at, name) in variables(locked, runtime, locals.code)
        .into_iter()
        .enumerate()
    {
        // SAFETY: a live frame's variable, with the lock.
        let value = unsafe { locals.get(at) };
        if let Some(object) = value.and_then(|value| heap.number(value)) {
            roots.all.push(Root {
                object,
                what: What::Local(number, name),
                is_own,
            });
        }
    }
}

/// The names of a code object's variables, in the order of their places.
pub(crate) fn variables(locked: &Locked, runtime: &Runtime, code: Object) -> Vec<String> {
    // An argument that a closure uses has one place from 3.11 on.
    let cells_are_shared = runtime.version().minor() >= (3, 11);
    let mut names = Vec::new();
    for attribute in [c"co_varnames", c"co_cellvars", c"co_freevars"] {
        let Some(tuple) = locked.attribute(code, attribute) else {
            continue;
        };
        let is_cells = attribute == c"co_cellvars";
        // SAFETY: a tuple of strings.
        let length = unsafe { (locked.python.PyTuple_Size)(tuple) };
        for at in 0..length {
            // SAFETY: an entry of the tuple.
            let name = unsafe { (locked.python.PyTuple_GetItem)(tuple, at) };
            let name = locked.text(name).unwrap_or_default();
            if !(is_cells && names.contains(&name) && cells_are_shared) {
                names.push(name);
            }
        }
        locked.release(tuple);
    }
    names
}

/// `main (train.py:31)`
pub(crate) fn frame_text(locked: &Locked, locals: &Locals) -> String {
    let name = code_text(locked, locals.code, c"co_qualname");
    let name = name.or_else(|| code_text(locked, locals.code, c"co_name"));
    let file = code_text(locked, locals.code, c"co_filename").unwrap_or_default();
    let file = file.rsplit('/').next().unwrap_or_default();
    // SAFETY: a live code object, with the lock.
    let line = unsafe { (locked.python.PyCode_Addr2Line)(locals.code, locals.offset) };
    let name = name.unwrap_or_default().replace("<locals>.", "");
    clean(&format!("{name} ({file}:{line})"))
}

fn code_text(locked: &Locked, code: Object, name: &core::ffi::CStr) -> Option<String> {
    let text = locked.attribute(code, name)?;
    let result = locked.text(text);
    locked.release(text);
    result
}

/// Whether a frame runs code of the program.
pub(crate) fn is_of_program(locked: &Locked, locals: &Locals) -> bool {
    let file = code_text(locked, locals.code, c"co_filename");
    is_own(&file.unwrap_or_default())
}

/// Whether a file is the program's, not that of an installed package.
fn is_own(file: &str) -> bool {
    let installed = ["/site-packages/", "/dist-packages/", "/lib/python3"];
    !file.starts_with("<frozen") && !installed.iter().any(|part| file.contains(part))
}

fn handled(locked: &Locked, heap: &Heap, roots: &mut Roots) {
    let mut exception = [0; 3];
    let [class, value, traceback] = &mut exception;
    // SAFETY: with the lock; new references.
    unsafe { (locked.python.PyErr_GetExcInfo)(class, value, traceback) };
    for object in [exception[1], exception[2]] {
        if let Some(object) = heap.number(object) {
            roots.all.push(Root {
                object,
                what: What::Handled,
                is_own: false,
            });
        }
    }
    exception
        .into_iter()
        .for_each(|object| locked.release(object));
}

fn modules(locked: &Locked, heap: &Heap, roots: &mut Roots) {
    let python = &locked.python;
    // SAFETY: with the lock; a borrowed dictionary.
    let modules = unsafe { (python.PyImport_GetModuleDict)() };
    locked.entries(modules, |name, module| {
        let Some(name) = locked.text(name) else {
            return true;
        };
        // SAFETY: a live object's class; the namespace is borrowed from a module.
        let namespace = unsafe {
            match (python.PyType_IsSubtype)(kind(module), python.PyModule_Type) != 0 {
                true => (python.PyModule_GetDict)(module),
                false => module,
            }
        };
        if let Some(object) = heap.number(namespace) {
            roots.all.push(Root {
                object,
                is_own: name == "__main__" || is_own_module(locked, namespace),
                what: What::Module(name),
            });
        }
        true
    });
}

/// Whether a module's file is the program's.
fn is_own_module(locked: &Locked, namespace: Object) -> bool {
    if kind(namespace) != locked.python.PyDict_Type {
        return false;
    }
    // SAFETY: a dictionary, with the lock; the result is borrowed.
    let file = unsafe { (locked.python.PyDict_GetItemString)(namespace, c"__file__".as_ptr()) };
    locked.text(file).is_some_and(|file| is_own(&file))
}
