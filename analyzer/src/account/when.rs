//! The step, phase and range of an event. They are known after all records are read.

use gpumem_capture::StackId;
use schemars::JsonSchema;
use serde::Serialize;

use crate::attribution::is_in_closure;
use crate::names::Names;
use crate::replay::{Replay, SpanContext, StackKey, ThreadPhase};

/// Part of a training, by what the thread that allocated was doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Phase {
    /// Outside all other phases, in a process that trains; this includes the forward with gradients on.
    Forward,
    /// With gradients off (`no_grad`, `inference_mode`), in a module or after its call.
    Evaluation,
    /// After the last backward and the last optimizer step of the program.
    AfterTraining,
    /// While a module of PyTorch creates, loads or moves its parameters: `__init__`, `to()`, `load_state_dict()`.
    SetUp,
    /// In a `DataLoader`, or outside all modules before the forward of a step.
    Data,
    /// While autograd's engine or one of its nodes runs.
    Backward,
    /// In `step()` of an optimizer, except in its closure.
    Optimizer,
    /// While gradients are zeroed or dropped.
    ZeroGrad,
}

impl Phase {
    /// All phases.
    pub const ALL: [Self; 8] = [
        Self::Forward,
        Self::Evaluation,
        Self::AfterTraining,
        Self::SetUp,
        Self::Data,
        Self::Backward,
        Self::Optimizer,
        Self::ZeroGrad,
    ];

    /// Its name in JSON.
    pub fn key(self) -> &'static str {
        match self {
            Self::AfterTraining => "after_training",
            Self::SetUp => "set_up",
            _ => self.word(),
        }
    }

    /// The label in text. JSON has the variant's name in snake case, such as `after_training`.
    pub fn word(self) -> &'static str {
        match self {
            Self::Forward => "forward",
            Self::Evaluation => "evaluation",
            Self::AfterTraining => "after training",
            Self::SetUp => "set-up",
            Self::Data => "data",
            Self::Backward => "backward",
            Self::Optimizer => "optimizer",
            Self::ZeroGrad => "zero_grad",
        }
    }
}

/// Step, phase and NVTX range of the program at a point in time.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct When {
    /// Number of the step in progress at the point in time, from 1; `None`: not known, or the capture has no steps.
    pub step: Option<u64>,
    /// Phase of the training at the point in time; `None`: not known, or the program does not train.
    pub phase: Option<Phase>,
    /// Name of the innermost NVTX range open at the point in time; `None`: not known, or no range was open.
    pub range: Option<String>,
}

/// Returns the step, phase and range of a span context. Call it after all records are read.
pub fn when_of(replay: &Replay, span_context: SpanContext) -> When {
    let names = &replay.names;
    When {
        step: (replay.spans.steps > 0).then(|| span_context.steps.saturating_add(1)),
        phase: phase_of(replay, span_context.stacks),
        range: span_context
            .range
            .and_then(|range| names.ranges.get(&range).cloned()),
    }
}

/// Functions in torch/nn that create or move parameters.
const MAKES: [&str; 4] = ["__init__", "_apply", "load_state_dict", "reset_parameters"];

/// The phase of an allocation without marks, from PyTorch's own frames.
pub fn by_frames(names: &Names, stack: StackId) -> Option<Phase> {
    let frames = names.py_stacks.get(&stack).map(|(frames, _)| frames)?;
    frames.iter().find_map(|frame| {
        let code = names.codes.get(&frame.code)?;
        let function = code.name.rsplit('.').next().unwrap_or(&code.name);
        match () {
            () if MAKES.contains(&function) && code.file.contains("/torch/nn/") => {
                Some(Phase::SetUp)
            }
            () if code.file.contains("/torch/utils/data/") => Some(Phase::Data),
            () => None,
        }
    })
}

/// The phase of an allocation of a training without marks.
fn outside_of(replay: &Replay, stacks: StackKey) -> Phase {
    let purpose = stacks.purpose;
    let has_modules = replay.has_modules();
    match () {
        () if purpose.is_before_forward()
            && has_modules
            && (purpose.is_no_grad() || !purpose.is_after_training()) =>
        {
            Phase::Data
        }
        // Gradients are also off in the forward of a custom function.
        () if purpose.is_no_grad()
            && has_modules
            && !purpose.is_before_forward()
            && !is_in_function(&replay.names, stacks.py) =>
        {
            Phase::Evaluation
        }
        () if purpose.is_after_training() => Phase::AfterTraining,
        () => Phase::Forward,
    }
}

/// Whether a custom function (`torch.autograd.Function`) is among the callers.
fn is_in_function(names: &Names, stack: StackId) -> bool {
    let frames = names.py_stacks.get(&stack).map(|(frames, _)| frames);
    frames.into_iter().flatten().any(|frame| {
        let code = names.codes.get(&frame.code);
        code.is_some_and(|code| code.file.ends_with("torch/autograd/function.py"))
    })
}

/// The phase of an allocation. Call it after all records are read. The thread's own marks take precedence. Without
/// marks, allocations of autograd nodes belong to the backward, all others of a training to the forward. Allocations
/// in an optimizer's closure do not belong to the optimizer.
pub fn phase_of(replay: &Replay, stacks: StackKey) -> Option<Phase> {
    let names = &replay.names;
    let outside = replay.spans.trains.then(|| outside_of(replay, stacks));
    match stacks.purpose.phase() {
        ThreadPhase::Backward => Some(Phase::Backward),
        ThreadPhase::Optimizer if is_in_closure(names, stacks.py) => outside,
        ThreadPhase::Optimizer => Some(Phase::Optimizer),
        ThreadPhase::ZeroGrad => Some(Phase::ZeroGrad),
        ThreadPhase::Outside if names.backwards.contains_key(&stacks.py) => Some(Phase::Backward),
        // Forward, or backward on a separate thread.
        ThreadPhase::Outside if stacks.is_not_sampled() => None,
        // The capture lacks the stack.
        ThreadPhase::Outside if !names.has_python(stacks.py) => None,
        ThreadPhase::Outside => outside.map(|phase| by_frames(names, stacks.py).unwrap_or(phase)),
        ThreadPhase::Beside | ThreadPhase::Other => None,
    }
}
