//! Places in code, and what stands there.

use std::rc::Rc;

use gpumem_capture::Function;

use super::readable::readable;
use crate::names::{Module, Names, NativeFrame};

/// Code that no module holds.
pub(super) const MADE_AT_RUN_TIME: &str = "(JIT code)";

/// A place in code: a module (an index into [`Names::modules`]; none for code in no module) and the
/// link address in it (the address itself).
pub(super) type Spot = (Option<u32>, u64);

/// What stands at a place.
#[derive(Debug)]
pub(super) struct Place {
    /// What its frames are called, the oldest first: the function, and what is inlined into it there.
    pub labels: Box<[Rc<str>]>,
    /// The same in parts.
    pub sources: Box<[Source]>,
    pub role: Role,
}

/// A function at a place of code, in parts.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Source {
    /// Its readable name, without file and line.
    pub name: Rc<str>,
    /// The source file; empty if it is not known.
    pub file: Rc<str>,
    /// The line in it; 0: not known.
    pub line: u32,
}

/// What a function means to the Python frames beside it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    Evaluation,
    Trampoline,
    Other,
}

/// What a function is called in a view.
pub(super) fn label(function: &Function, is_inlined: bool, is_made_at_run_time: bool) -> String {
    if is_made_at_run_time {
        return format!("{} {MADE_AT_RUN_TIME}", function.name);
    }
    let name = readable(&function.name);
    let file = function.file.rsplit('/').next().unwrap_or_default();
    match (file, function.line, is_inlined) {
        ("", _, true) => format!("{name} (inlined)"),
        ("", _, false) => name,
        (file, 0, true) => format!("{name} ({file}, inlined)"),
        (file, 0, false) => format!("{name} ({file})"),
        (file, line, true) => format!("{name} ({file}:{line}, inlined)"),
        (file, line, false) => format!("{name} ({file}:{line})"),
    }
}

/// Whether a frame lies in the interpreter itself.
pub fn is_interpreter(names: &Names, frame: &NativeFrame) -> bool {
    let Some(module) = names.module(frame) else {
        return false;
    };
    let eval = names
        .interpreter
        .map_or(0, |interpreter| interpreter.eval.0);
    if eval != 0 && (module.start..module.end).contains(&eval) {
        return true;
    }
    // The program itself, where the interpreter is a library, and where its address is not known.
    let name = module.basename();
    let version = name
        .strip_prefix("libpython")
        .or_else(|| name.strip_prefix("python"));
    version.is_some_and(|rest| rest.is_empty() || rest.starts_with(|c: char| c.is_ascii_digit()))
}

/// Whether a frame is the recorder's own.
pub fn is_recorder(names: &Names, frame: &NativeFrame) -> bool {
    names
        .module(frame)
        .is_some_and(|module| module.basename().starts_with("libgpumem"))
}

/// The place that a frame is at.
pub(super) fn spot(names: &Names, frame: &NativeFrame) -> Spot {
    let call = frame.call_address();
    match names.module(frame) {
        Some(Module { bias, .. }) => (frame.module, call.wrapping_sub(*bias)),
        None => (None, call),
    }
}
