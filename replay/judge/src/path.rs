//! A Python stack as a way through the program: the oldest frame first, up to the forward of a module.

use gpumem_capture::{CodeId, PyFrame, StackId};
use gpumem_replay::backward::{Origin, chain};
use gpumem_replay::names::Names;

/// A place in a function: its code object, and the instruction's offset in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Step {
    pub code: CodeId,
    pub offset: i32,
}

/// The frames of a stack, the oldest first.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Path {
    pub steps: Box<[Step]>,
    /// How many of them are outside all forwards.
    pub outside: usize,
    /// The index of the outermost forward's own frame.
    pub forward: usize,
    /// Whether the stack is that of an autograd node: the steps are those of its forward.
    pub is_backward: bool,
}

impl Path {
    /// The path of a Python stack; without steps if the stack is not in the capture.
    pub fn of(names: &Names, stack: StackId) -> Self {
        let (stack, is_backward) = match names.backwards.get(&stack) {
            None => (stack, false),
            Some(ran) => match chain(names, ran).1 {
                Origin::Forward(forward) => (forward, true),
                Origin::NoPython | Origin::Lost => return Self::nowhere(true),
            },
        };
        let Some((frames, _)) = names.py_stacks.get(&stack) else {
            return Self::nowhere(is_backward);
        };
        let outside = frames
            .iter()
            .rposition(|frame| is_forward(names, frame))
            .map_or(frames.len(), |newest| frames.len() - newest - 1);
        let inside = frames.iter().rev().skip(outside);
        let forward = outside + inside.take_while(|frame| is_call(names, frame)).count();
        let steps = frames.iter().rev().map(|frame| Step {
            code: frame.code,
            offset: frame.offset,
        });
        Self {
            steps: steps.collect(),
            outside,
            forward,
            is_backward,
        }
    }

    fn nowhere(is_backward: bool) -> Self {
        Self {
            is_backward,
            ..Self::default()
        }
    }

    /// The steps outside all forwards.
    pub fn site(&self) -> &[Step] {
        self.steps.get(..self.outside).unwrap_or_default()
    }

    /// Whether the stack is within a forward.
    pub fn in_forward(&self) -> bool {
        self.outside < self.steps.len()
    }
}

/// Whether a frame is PyTorch's call of a module.
fn is_call(names: &Names, frame: &PyFrame) -> bool {
    let code = names.codes.get(&frame.code);
    code.is_some_and(|code| code.file.ends_with("torch/nn/modules/module.py"))
}

/// Whether a frame enters a forward: of a module, or of a custom function of autograd.
fn is_forward(names: &Names, frame: &PyFrame) -> bool {
    let Some(code) = names.codes.get(&frame.code) else {
        return false;
    };
    // The name is qualified from Python 3.11 on.
    let name = code.name.rsplit('.').next().unwrap_or_default();
    match code.file.rsplit_once("torch/") {
        Some((_, "nn/modules/module.py")) => matches!(name, "_wrapped_call_impl" | "_call_impl"),
        Some((_, "autograd/function.py")) => name == "apply",
        _ => name == "forward",
    }
}
