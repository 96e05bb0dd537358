//! What the places of stacks are: whose code, and which line.

use gpumem_capture::{CodeId, PyFrame, StackId};
use gpumem_replay::attribution::{Line, Owner};
use gpumem_replay::backward::{Origin, chain};
use gpumem_replay::names::Names;

use crate::rounds::Loop;

/// Whether a module makes or converts its parameters in a stack.
pub(crate) fn makes_weights(names: &Names, stack: StackId) -> bool {
    let frames = names.py_stacks.get(&stack);
    let frames = frames.map_or(&[][..], |(frames, _)| frames);
    frames.iter().any(|frame| {
        let code = names.codes.get(&frame.code);
        code.is_some_and(|code| {
            let name = code.name.rsplit('.').next().unwrap_or_default();
            let file = code
                .file
                .rsplit_once("torch/nn/modules/")
                .map(|(_, file)| file);
            match file {
                Some("module.py") => name == "_apply",
                Some(_) => matches!(name, "__init__" | "reset_parameters"),
                None => false,
            }
        })
    })
}

/// Whether a function is the program's or a library's, not PyTorch's or Python's.
pub(crate) fn is_the_programs(names: &Names, code: CodeId) -> bool {
    let code = names.codes.get(&code);
    !code.is_some_and(|code| {
        let is_standard = code.file.contains("/lib/python3.") && !code.file.contains("-packages/");
        is_standard || code.file.contains("/site-packages/torch/")
    })
}

/// The line at an offset of a function.
pub(crate) fn line_at(names: &Names, code: CodeId, offset: i32) -> Option<Owner> {
    let frame = PyFrame {
        code,
        offset,
        entered_from_c: false,
    };
    let of = names.codes.get(&code)?;
    let line = Line {
        file: names.absolute_path(&of.file),
        relative: names.relative_path(&of.file),
        line: names.line(&frame)?,
        function: of.name.clone(),
    };
    Some(Owner::Line(line, None))
}

/// The program's line that calls a function in a file of PyTorch or Python, if a stack runs through one.
pub(crate) fn caller_of(names: &Names, stack: StackId, file: &str) -> Option<Owner> {
    let ran = names.backwards.get(&stack);
    let stack = match ran.map(|ran| chain(names, ran).1) {
        Some(Origin::Forward(forward)) => forward,
        Some(Origin::NoPython | Origin::Lost) => return None,
        None => stack,
    };
    let (frames, _) = names.py_stacks.get(&stack)?;
    let is_in = |of: &PyFrame| {
        let code = names.codes.get(&of.code);
        code.is_some_and(|code| code.file.ends_with(file)) && !is_the_programs(names, of.code)
    };
    let oldest = frames.iter().rposition(is_in)?;
    let mut callers = frames.iter().skip(oldest);
    let caller = callers.find(|of| is_the_programs(names, of.code))?;
    line_at(names, caller.code, caller.offset)
}

/// The line at which a round begins.
pub(crate) fn begins(names: &Names, of: &Loop) -> Option<Owner> {
    line_at(names, of.code, of.first)
}
