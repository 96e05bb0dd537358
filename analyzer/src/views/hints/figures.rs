//! Figures by stack, and the detection of forwards in Python stacks.

use gpumem_capture::StackId;

use crate::names::Names;
use crate::replay::{Figure, Replay, StackKey, ThreadPhase};

/// By stack.
pub(super) type Figures = Vec<(StackKey, Figure)>;

/// The function that PyTorch calls for each new autograd node.
pub(super) const NUMBERED: &str = "_ZN2at15sequence_number17get_and_incrementEv";

/// Whether a module's forward is among the functions.
pub(super) fn is_in_forward(names: &Names, stack: StackId) -> bool {
    functions(names, stack).any(|(_, name)| name == "forward" || name.ends_with(".forward"))
}

/// Whether autograd may keep the memory of a stack for a backward: a forward allocated it, with gradients on.
pub(in crate::views) fn is_in_graph(replay: &Replay, stacks: StackKey) -> bool {
    stacks.purpose.phase() == ThreadPhase::Outside
        && !stacks.purpose.is_no_grad()
        && is_in_forward(&replay.names, stacks.py)
}

/// Whether PyTorch's checkpointing runs the forward: it frees what the forward makes, and makes it again in backward.
pub(super) fn is_in_checkpoint(names: &Names, stack: StackId) -> bool {
    functions(names, stack).any(|(file, _)| file.ends_with("torch/utils/checkpoint.py"))
}

/// The newest line of Python, for any caller: a code object, and the offset in it.
pub(super) fn newest(names: &Names, stack: StackId) -> Option<(u32, i32)> {
    let (frames, _) = names.py_stacks.get(&stack)?;
    frames.first().map(|frame| (frame.code.0, frame.offset))
}

/// File and function of each frame, the newest first; none for an autograd node, which ran in backward.
pub(super) fn functions(names: &Names, stack: StackId) -> impl Iterator<Item = (&str, &str)> {
    let frames = names.py_stacks.get(&stack).map(|(frames, _)| frames);
    let frames = frames.map_or(&[][..], Vec::as_slice).iter();
    frames.filter_map(|frame| {
        let code = names.codes.get(&frame.code)?;
        Some((code.file.as_str(), code.name.as_str()))
    })
}
