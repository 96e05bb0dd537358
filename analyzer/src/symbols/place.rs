//! Places in code and their labels.

use std::rc::Rc;

use gpumem_capture::Function;

use super::readable::readable;
use crate::names::{Module, Names, NativeFrame};

/// The label of code in no module.
pub(super) const MADE_AT_RUN_TIME: &str = "(JIT code)";

/// A place in code: a module (an index into [`Names::modules`]; `None` for code in no module) and the link address in
/// it (or the address itself).
pub(super) type Spot = (Option<u32>, u64);

/// The names at a place.
#[derive(Debug)]
pub(super) struct Place {
    /// The labels of its frames, the oldest first: the function, and the functions inlined into it.
    pub labels: Box<[Rc<str>]>,
    /// The same as separate fields.
    pub sources: Box<[Source]>,
    pub role: Role,
}

/// A function at a place, as separate fields.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Source {
    /// Its readable name, without file and line.
    pub name: Rc<str>,
    /// The source file; empty if it is unknown.
    pub file: Rc<str>,
    /// The line in it; 0 if it is unknown.
    pub line: u32,
}

/// How a function relates to Python frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    Evaluation,
    Trampoline,
    Other,
}

/// The label of a function in views.
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

/// Whether a frame is in the interpreter itself.
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
    // The program itself, even if the interpreter is a library, and if its address is not known.
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

/// The place of a frame.
pub(super) fn spot(names: &Names, frame: &NativeFrame) -> Spot {
    let call = frame.call_address();
    match names.module(frame) {
        Some(Module { bias, .. }) => (frame.module, call.wrapping_sub(*bias)),
        None => (None, call),
    }
}
