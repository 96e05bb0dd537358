//! Finds the part of a training that a stack belongs to.

use crate::account::{Phase, by_frames};
use crate::attribution::is_in_closure;
use crate::names::Names;
use crate::replay::{StackKey, ThreadPhase};

/// The part of a training that memory belongs to, from frames and marks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::views) enum Place {
    /// A function named forward.
    Forward,
    /// Autograd's engine.
    Backward,
    /// An optimizer's step.
    Optimizer,
    /// A module is created or moved.
    SetUp,
    /// A workspace of cuBLAS.
    Workspace,
    /// None of these.
    #[default]
    Elsewhere,
}

fn is_forward(name: &str) -> bool {
    name == "forward" || name.ends_with(".forward")
}

/// The part that an allocation belongs to.
pub(in crate::views) fn place(names: &Names, stacks: StackKey) -> Place {
    if stacks.purpose.is_workspace() {
        return Place::Workspace;
    }
    match stacks.purpose.phase() {
        ThreadPhase::Backward => return Place::Backward,
        ThreadPhase::Optimizer if !is_in_closure(names, stacks.py) => return Place::Optimizer,
        _ if names.backwards.contains_key(&stacks.py) => return Place::Backward,
        _ => {}
    }
    if by_frames(names, stacks.py) == Some(Phase::SetUp) {
        return Place::SetUp;
    }
    let frames = names.py_stacks.get(&stacks.py).map(|(frames, _)| frames);
    let mut codes = frames
        .into_iter()
        .flatten()
        .filter_map(|frame| names.codes.get(&frame.code));
    match codes.any(|code| is_forward(&code.name)) {
        true => Place::Forward,
        false => Place::Elsewhere,
    }
}
