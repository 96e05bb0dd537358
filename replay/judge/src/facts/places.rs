//! What the places of stacks are: whose code, and which line.

use gpumem_capture::{CodeId, PyFrame, StackId};
use gpumem_replay::attribution::{Line, Owner};
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

/// The line at which a round begins.
pub(crate) fn begins(names: &Names, of: &Loop) -> Option<Owner> {
    line_at(names, of.code, of.first)
}
