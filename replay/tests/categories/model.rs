//! The categories of blocks, computed from the whole history at once. It follows docs/categories.md and the comments of
//! `replay/src/category.rs`, and shares no code with the replay.

use std::collections::{HashMap, HashSet};

use gpumem_capture::{
    DeviceOrdinal, Event, EventFlags, EventKind, Level, Phase, Role, StackId, ThreadId,
};
use gpumem_replay::{Category, ThreadPhase};

use crate::program::Stack;

/// The keys of figures, without the category.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Base {
    pub py: StackId,
    pub phase: u8,
    pub is_workspace: bool,
    pub is_no_grad: bool,
    pub is_before_forward: bool,
}

/// One block of a tensor, from its first event to its last.
#[derive(Clone, Debug)]
pub struct Life {
    pub device: DeviceOrdinal,
    pub bytes: u64,
    pub base: Base,
    /// Numbers of events.
    pub begin: u64,
    pub end: Option<u64>,
    pub category: Category,
}

impl Life {
    pub fn is_live_after(&self, seq: u64) -> bool {
        self.begin <= seq && self.end.is_none_or(|end| end > seq)
    }
}

/// All events up to one, including that one.
struct History<'a>(&'a [Event]);

fn is_tensor(event: &Event, kind: EventKind) -> bool {
    (event.kind, event.level) == (kind, Level::TENSOR)
}

fn is_python(event: &Event) -> bool {
    is_tensor(event, EventKind::ALLOC) && Stack::of(event.py_stack).python
}

fn calls_module(event: &Event) -> bool {
    is_python(event) && Stack::of(event.py_stack).module
}

fn ends_turn(event: &Event) -> bool {
    let phases = [Phase::BACKWARD.0, Phase::OPTIMIZER.0];
    event.kind == EventKind::STEP
        || event.kind == EventKind::PHASE_BEGIN && phases.contains(&event.aux)
}

impl History<'_> {
    /// The phases that a thread is in, the innermost last.
    fn phases(&self, thread: ThreadId) -> Vec<u64> {
        let mut open = Vec::new();
        for event in self.0.iter().filter(|event| event.thread == thread) {
            if event.kind == EventKind::PHASE_BEGIN {
                open.push(event.aux);
            } else if event.kind == EventKind::PHASE_END
                && let Some(at) = open.iter().rposition(|phase| *phase == event.aux)
            {
                open.truncate(at);
            }
        }
        open
    }

    fn phase(&self, thread: ThreadId, runs_python: bool) -> ThreadPhase {
        let anyone_waits =
            || (1..=3).any(|thread| self.phases(ThreadId(thread)).contains(&Phase::BACKWARD.0));
        match self.phases(thread).last().map(|phase| Phase(*phase)) {
            Some(Phase::BACKWARD) => ThreadPhase::Backward,
            Some(Phase::OPTIMIZER) => ThreadPhase::Optimizer,
            Some(Phase::ZERO_GRAD) => ThreadPhase::ZeroGrad,
            Some(_) => ThreadPhase::Other,
            None if !runs_python && anyone_waits() => ThreadPhase::Beside,
            None => ThreadPhase::Outside,
        }
    }

    /// The number of turns that ended.
    fn turns(&self) -> usize {
        let marks = self.0.iter().filter(|event| ends_turn(event)).count();
        let leaves = |thread| {
            let own = self.0.iter().filter(|event| event.thread == thread);
            let in_module: Vec<bool> = own
                .filter(|event| is_python(event))
                .map(calls_module)
                .collect();
            in_module
                .windows(2)
                .filter(|two| **two == [true, false])
                .count()
        };
        marks
            + (1..=3)
                .map(|thread| leaves(ThreadId(thread)))
                .sum::<usize>()
    }

    fn has_modules(&self) -> bool {
        self.0.iter().any(calls_module)
    }

    /// Whether no module was called since a backward, an optimizer's step or a step began or ended. A thread that calls
    /// no modules is always before the forward.
    fn is_before_forward(&self, thread: ThreadId) -> bool {
        let own = |event: &Event| event.thread == thread && calls_module(event);
        !self.has_forward_begun() || !self.0.iter().any(own)
    }

    /// Whether a module was called since a backward, an optimizer's step or a step began or ended.
    fn has_forward_begun(&self) -> bool {
        let mut newest = self.0.iter().rev().take_while(|event| !ends_turn(event));
        newest.any(calls_module)
    }

    /// Whether a thread works for a backward.
    fn is_backward(&self, thread: ThreadId) -> bool {
        match self.phase(thread, false) {
            ThreadPhase::Backward => true,
            ThreadPhase::Beside => {
                let own = |it: &&Event| it.thread == thread;
                let runs_python = self.0.iter().filter(own).any(is_python);
                !runs_python || self.has_worked(thread)
            }
            _ => false,
        }
    }

    /// Whether a thread ran an autograd node while another one waited for it.
    fn has_worked(&self, thread: ThreadId) -> bool {
        (0..self.0.len()).any(|at| {
            let event = &self.0[at];
            event.thread == thread
                && is_tensor(event, EventKind::ALLOC)
                && Stack::of(event.py_stack).node
                && History(&self.0[..at]).phases(thread).is_empty()
        })
    }
}

/// A block when it is allocated.
struct Made {
    origin: Origin,
    turn: usize,
    is_early: bool,
    seq: usize,
    is_no_grad: bool,
}

/// What happened since a block was allocated.
#[derive(Clone, Copy)]
struct Since {
    turns: usize,
    has_modules: bool,
    /// Whether a backward, an optimizer's step or a step began or ended.
    is_marked: bool,
}

impl Since {
    fn of(now: &History<'_>, made: &Made) -> Self {
        Self {
            turns: now.turns() - made.turn,
            has_modules: now.has_modules(),
            is_marked: now.0[made.seq..].iter().any(ends_turn),
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Origin {
    Workspace,
    Weights,
    Optimizer,
    Backward,
    Recomputed,
    Forward,
    Inference,
    Outside,
}

fn origin(base: Base) -> Origin {
    let stack = Stack::of(base.py);
    let is = |phase: ThreadPhase| base.phase == phase as u8;
    let not_sampled = base.py == StackId::NOT_SAMPLED;
    if base.is_workspace {
        Origin::Workspace
    } else if (stack.node || is(ThreadPhase::Backward)) && stack.module {
        Origin::Recomputed
    } else if stack.node
        || is(ThreadPhase::Backward)
        || is(ThreadPhase::ZeroGrad)
        || (is(ThreadPhase::Beside) && !stack.python)
    {
        Origin::Backward
    } else if is(ThreadPhase::Optimizer) && !stack.closure {
        Origin::Optimizer
    } else if stack.weights {
        Origin::Weights
    } else if !stack.module && !not_sampled {
        Origin::Outside
    } else if base.is_no_grad && !stack.function {
        Origin::Inference
    } else {
        Origin::Forward
    }
}

/// For how many turns a block counts as a batch.
const BATCH: usize = 8;

/// The category of a block allocated outside modules that was not freed at once or during backward.
fn outside(made: &Made, since: Since) -> Category {
    let is_new = since.has_modules && since.turns <= BATCH;
    let is_result = !made.is_early && since.is_marked;
    match (is_new, is_result) {
        (false, _) => Category::Other,
        (true, false) => Category::Input,
        (true, true) if made.is_no_grad => Category::Other,
        (true, true) => Category::Activation,
    }
}

/// The category of a block that is freed.
fn ended(made: &Made, since: Since, by_backward: bool) -> Category {
    let Since {
        turns, has_modules, ..
    } = since;
    let of_forward = matches!(
        made.origin,
        Origin::Forward | Origin::Inference | Origin::Outside
    );
    let at_once = turns == 0 && (of_forward || made.origin == Origin::Optimizer);
    match made.origin {
        Origin::Workspace => Category::Workspace,
        Origin::Weights => Category::Parameter,
        Origin::Recomputed => Category::Activation,
        Origin::Backward if turns > BATCH => Category::Other,
        Origin::Backward => Category::Temporary,
        Origin::Outside if by_backward && has_modules && made.is_early => Category::Input,
        _ if by_backward && of_forward => Category::Activation,
        _ if at_once => Category::Temporary,
        Origin::Optimizer => Category::OptimizerState,
        Origin::Forward => Category::Activation,
        Origin::Inference => Category::Other,
        Origin::Outside => outside(made, since),
    }
}

/// The category of a block that is live at a failure or the end; `before`: that of the newest one with its stacks.
fn live(made: &Made, since: Since, before: Option<Category>) -> Category {
    let turns = since.turns;
    match made.origin {
        Origin::Workspace => Category::Workspace,
        Origin::Weights => Category::Parameter,
        Origin::Optimizer => Category::OptimizerState,
        Origin::Backward => Category::Temporary,
        Origin::Recomputed => Category::Activation,
        Origin::Forward if before == Some(Category::Temporary) => Category::Temporary,
        Origin::Forward => Category::Activation,
        Origin::Inference if before == Some(Category::Activation) => Category::Activation,
        Origin::Inference if turns > 1 || before == Some(Category::Other) => Category::Other,
        Origin::Inference => Category::Temporary,
        Origin::Outside if before == Some(Category::Activation) && turns <= BATCH => {
            Category::Activation
        }
        Origin::Outside => outside(made, since),
    }
}

fn told(role: u64) -> Option<Category> {
    match Role(role) {
        Role::PARAMETER | Role::BUFFER => Some(Category::Parameter),
        Role::GRADIENT => Some(Category::Gradient),
        Role::OPTIMIZER_STATE => Some(Category::OptimizerState),
        _ => None,
    }
}

/// All blocks of the tensor level, each with its final category.
pub fn lives(events: &[Event]) -> Vec<Life> {
    let mut lives: Vec<Life> = Vec::new();
    let mut made: Vec<Made> = Vec::new();
    // The recorded categories of blocks, by index; and that of the newest block with a base.
    let mut certain: HashMap<usize, Category> = HashMap::new();
    let mut newest: HashMap<Base, Category> = HashMap::new();
    // A place that once came before a forward always counts as such.
    let mut before_forward: HashSet<Base> = HashSet::new();
    for (at, event) in events.iter().enumerate() {
        let seq = at as u64 + 1;
        let now = History(&events[..=at]);
        let found = lives.iter().rposition(|it| {
            it.end.is_none() && it.device == event.device && it.begin == begin_of(events, at)
        });
        match event.kind {
            EventKind::ALLOC if event.level == Level::TENSOR => {
                let runs_python = event.py_stack != StackId::NONE;
                let mut base = Base {
                    py: event.py_stack,
                    phase: now.phase(event.thread, runs_python) as u8,
                    is_workspace: event.flags.contains(EventFlags::WORKSPACE),
                    is_no_grad: event.flags.contains(EventFlags::NO_GRAD),
                    is_before_forward: false,
                };
                if is_python(event) && origin(base) == Origin::Outside {
                    if !now.has_forward_begun() {
                        before_forward.insert(base);
                    }
                    base.is_before_forward = before_forward.contains(&base);
                }
                made.push(Made {
                    origin: origin(base),
                    turn: now.turns(),
                    is_early: now.is_before_forward(event.thread),
                    seq: at,
                    is_no_grad: base.is_no_grad,
                });
                lives.push(Life {
                    device: event.device,
                    bytes: event.bytes,
                    base,
                    begin: seq,
                    end: None,
                    category: Category::None,
                });
            }
            EventKind::FREE => {
                let index = found.expect("what is freed is live");
                lives[index].end = Some(seq);
                if certain.contains_key(&index) {
                    continue;
                }
                let by_backward = now.is_backward(event.thread);
                let since = Since::of(&now, &made[index]);
                let was = ended(&made[index], since, by_backward);
                certain.insert(index, was);
                newest.insert(lives[index].base, was);
            }
            EventKind::ROLE => {
                let (Some(index), Some(category)) = (found, told(event.aux)) else {
                    continue;
                };
                // The strongest role wins.
                let order = [
                    Category::Parameter,
                    Category::Gradient,
                    Category::OptimizerState,
                ];
                let rank = |of| order.iter().position(|it| *it == of).unwrap_or(3);
                let before = certain.get(&index).map_or(4, |before| rank(*before));
                if rank(category) < before {
                    certain.insert(index, category);
                    newest.insert(lives[index].base, category);
                }
            }
            EventKind::OUT_OF_MEMORY => settle(&now, &lives, &made, &newest, &mut certain),
            _ => {}
        }
    }
    settle(&History(events), &lives, &made, &newest, &mut certain);
    for (index, life) in lives.iter_mut().enumerate() {
        life.category = certain[&index];
    }
    lives
}

/// The event that made the newest block at another event's address.
fn begin_of(events: &[Event], at: usize) -> u64 {
    let same = |it: &Event| {
        is_tensor(it, EventKind::ALLOC)
            && (it.device, it.ptr) == (events[at].device, events[at].ptr)
    };
    let found = events[..at].iter().rposition(same);
    found.map_or(0, |found| found as u64 + 1)
}

/// Decides the category of live blocks without a recorded one.
fn settle(
    now: &History<'_>,
    lives: &[Life],
    made: &[Made],
    newest: &HashMap<Base, Category>,
    certain: &mut HashMap<usize, Category>,
) {
    for (index, life) in lives.iter().enumerate().filter(|(_, it)| it.end.is_none()) {
        let before = newest.get(&life.base).copied();
        let is = live(&made[index], Since::of(now, &made[index]), before);
        certain.entry(index).or_insert(is);
    }
}
