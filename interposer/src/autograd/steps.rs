//! Where a training's step ends, without a word of the program's.
//!
//! A step ends with an optimizer's step that follows a backward. Of several optimizers one leads: the
//! first that stepped, known by the thread and the Python stack that called it. Another one takes the
//! lead once it has stepped twice without it (a second training loop). Where gradients are zeroed
//! although no optimizer has stepped since the last backward, the step was skipped (a gradient scaler
//! that met an overflow) and ends there. A program that has made no optimizer of PyTorch's ends its
//! steps with the backward; PyTorch notes the first time that such things are made. `gpumem_step` ends
//! all this: steps are then what the program says.

use core::sync::atomic::{AtomicBool, Ordering};

use gpumem_capture::{ApiId, EventKind, Level, ThreadId};

use crate::session;
use crate::sideband::{self, Sideband};
use crate::thread::Thread;
use gpumem_capture::writer::lock::{Guard, Lock};

/// An optimizer: the thread and the Python stack of its steps.
type Optimizer = (ThreadId, u32);

/// Optimizers that are kept in mind beside the leading one.
const OTHERS: usize = 64;

/// What has been seen.
struct Steps {
    /// Steps so far.
    number: u64,
    /// The program tells its steps itself.
    told: bool,
    /// There was a backward since the last optimizer's step.
    unstepped: bool,
    /// There are optimizers.
    optimizers: bool,
    /// PyTorch has noted the use of something: it would have noted that of optimizers.
    notes: bool,
    /// Backwards before there were optimizers.
    backwards: u64,
    leading: Option<Optimizer>,
    /// Other optimizers that have stepped since the leading one did.
    others: Vec<Optimizer>,
}

static STEPS: Lock<Steps> = Lock::new(Steps::new());

impl Steps {
    const fn new() -> Self {
        Self {
            number: 0,
            told: false,
            unstepped: false,
            optimizers: false,
            notes: false,
            backwards: 0,
            leading: None,
            others: Vec::new(),
        }
    }

    /// One more step; its number.
    fn end(&mut self) -> Option<u64> {
        if self.told {
            return None;
        }
        self.number += 1;
        Some(self.number)
    }

    fn backward_ended(&mut self) -> Option<u64> {
        self.unstepped = true;
        if self.optimizers {
            return None;
        }
        self.backwards += 1;
        // Else it is known only by the second one that no optimizer has followed the first.
        if self.notes || self.backwards > 1 {
            self.end()
        } else {
            None
        }
    }

    fn optimizer_ended(&mut self, who: Optimizer) -> Option<u64> {
        self.optimizers = true;
        if !core::mem::replace(&mut self.unstepped, false) {
            return None;
        }
        let leads = *self.leading.get_or_insert(who) == who;
        if !leads && !self.others.contains(&who) {
            if self.others.len() < OTHERS {
                self.others.push(who);
            }
            return None;
        }
        self.leading = Some(who);
        self.others.clear();
        self.end()
    }

    fn zeroing(&mut self) -> Option<u64> {
        self.optimizers = true;
        if core::mem::replace(&mut self.unstepped, false) {
            self.end()
        } else {
            None
        }
    }

    /// The program says that a step has ended; its number, if it is recorded.
    fn said(&mut self, is_recorded: bool) -> Option<u64> {
        self.told = true;
        self.number += u64::from(is_recorded);
        is_recorded.then_some(self.number)
    }
}

/// [`Steps::notes`] and [`Steps::optimizers`], noted without a lock: a fork may come meanwhile.
static NOTES: AtomicBool = AtomicBool::new(false);
static OPTIMIZERS: AtomicBool = AtomicBool::new(false);

fn steps() -> Guard<'static, Steps> {
    let mut steps = STEPS.lock();
    steps.notes |= NOTES.load(Ordering::Relaxed);
    steps.optimizers |= OPTIMIZERS.load(Ordering::Relaxed);
    steps
}

fn tell(thread: &Thread, api: ApiId, number: Option<u64>, said: bool) {
    if let Some(aux) = number {
        let what = Sideband {
            aux,
            bytes: u64::from(said),
            ..Sideband::default()
        };
        sideband::record(thread, api, EventKind::STEP, Level::TENSOR, what);
    }
}

/// PyTorch notes the use of one of its parts.
pub(crate) fn used(event: &[u8]) {
    NOTES.store(true, Ordering::Relaxed);
    if event == b"python.optimizer" {
        OPTIMIZERS.store(true, Ordering::Relaxed);
    }
}

/// A thread has left autograd's engine.
pub(super) fn backward_ended(thread: &Thread, api: ApiId) {
    let number = steps().backward_ended();
    tell(thread, api, number, false);
}

/// An optimizer's step that was called from the Python stack `place` has ended.
pub(super) fn optimizer_ended(thread: &Thread, api: ApiId, place: u32) {
    let number = steps().optimizer_ended((thread.id(), place));
    tell(thread, api, number, false);
}

/// An optimizer is about to zero gradients.
pub(super) fn zeroing(thread: &Thread, api: ApiId) {
    let number = steps().zeroing();
    tell(thread, api, number, false);
}

/// The program says that a step has ended.
pub(crate) fn said(thread: &Thread) {
    let number = steps().said(session::session().is_some());
    tell(thread, ApiId(0), number, true);
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: Optimizer = (ThreadId(1), 10);
    const B: Optimizer = (ThreadId(1), 20);

    /// Steps that end in the course of what the letters say: b backward, A and B optimizers, z zeroing, m
    /// and o the first module and the first optimizer made.
    fn ends(course: &str) -> Vec<usize> {
        let mut steps = Steps::new();
        let told = course.chars().enumerate().filter(|(_, what)| {
            let ended = match what {
                'b' => steps.backward_ended(),
                'A' => steps.optimizer_ended(A),
                'B' => steps.optimizer_ended(B),
                'm' | 'o' => {
                    steps.notes = true;
                    steps.optimizers |= *what == 'o';
                    None
                }
                _ => steps.zeroing(),
            };
            ended.is_some()
        });
        told.map(|(at, _)| at).collect()
    }

    #[test]
    fn a_step_ends_with_the_optimizers() {
        assert_eq!(ends("zbAzbAzbA"), [2, 5, 8]);
        assert_eq!(ends("bAzbAz"), [1, 4]);
    }

    #[test]
    fn gathered_gradients_are_one_step() {
        assert_eq!(ends("oobbbbAzbbbbAz"), [6, 12]);
        assert_eq!(ends("zbbAzbbA"), [3, 7]);
    }

    #[test]
    fn several_optimizers_are_one_step() {
        assert_eq!(ends("zzbABzzbAB"), [3, 8]);
        // Each after a backward of its own.
        assert_eq!(ends("zbAzbBzbAzbB"), [2, 8]);
    }

    #[test]
    fn a_second_loop_takes_over() {
        assert_eq!(ends("bAbAbBbBbB"), [1, 3, 7, 9]);
    }

    #[test]
    fn a_skipped_step_ends_where_gradients_are_zeroed() {
        assert_eq!(ends("zbzbAzbzbA"), [2, 4, 7, 9]);
        assert_eq!(ends("bzbAz"), [1, 3]);
    }

    #[test]
    fn without_an_optimizer_backward_ends_a_step() {
        assert_eq!(ends("mbbbb"), [1, 2, 3, 4]);
        assert_eq!(ends("bbbb"), [1, 2, 3]);
        assert_eq!(ends("A"), [0; 0]);
    }

    #[test]
    fn what_the_program_says_counts_alone() {
        let mut steps = Steps::new();
        steps.backward_ended();
        assert_eq!(steps.optimizer_ended(A), Some(1));
        assert_eq!(steps.said(true), Some(2));
        steps.backward_ended();
        assert_eq!(steps.optimizer_ended(A), None);
        assert_eq!(steps.said(false), None);
        assert_eq!(steps.said(true), Some(3));
    }
}
