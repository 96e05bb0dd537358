//! Detects the end of a training's step without help of the program.
//!
//! A step ends with an optimizer's step that follows a backward. Of several optimizers one leads: the
//! first that stepped, identified by the thread and the Python stack that called it. Another one takes
//! the lead once it has stepped twice without it (a second training loop). If gradients are zeroed
//! although no optimizer has stepped since the last backward, the step was skipped (a gradient scaler
//! found an overflow) and ends there. A program that has created no PyTorch optimizer ends its steps with
//! the backward; PyTorch records the first time that such objects are created. After the first
//! `gpumem_step`, only the program reports steps.

use gpumem_capture::ThreadId;

use crate::account::{self, Once};

/// An optimizer: the thread and the Python stack of its steps.
type Optimizer = (ThreadId, u32);

/// The maximum number of remembered optimizers in addition to the leading one.
const OTHERS: usize = 64;

/// The state of the detection.
#[derive(Default)]
pub(crate) struct Steps {
    /// Steps so far.
    number: u64,
    /// The program reports its steps itself.
    told: bool,
    /// There was a backward since the last optimizer's step.
    unstepped: bool,
    /// There are optimizers.
    optimizers: bool,
    /// PyTorch has recorded the use of some part: it would have recorded that of optimizers.
    notes: bool,
    /// Backwards before there were optimizers.
    backwards: u64,
    leading: Option<Optimizer>,
    /// Other optimizers that have stepped since the leading one did.
    others: Vec<Optimizer>,
}

impl Steps {
    /// Applies what was recorded for the process without a lock, because a fork may have happened
    /// meanwhile.
    pub(super) fn note(&mut self) -> &mut Self {
        self.notes |= account::has_been(Once::PytorchNotes);
        self.optimizers |= account::has_been(Once::OptimizerMade);
        self.told |= account::has_been(Once::StepsTold);
        self
    }

    /// Ends a step; returns its number.
    fn end(&mut self) -> Option<u64> {
        if self.told {
            return None;
        }
        self.number += 1;
        Some(self.number)
    }

    pub(super) fn backward_ended(&mut self) -> Option<u64> {
        self.unstepped = true;
        if self.optimizers {
            return None;
        }
        self.backwards += 1;
        // Otherwise only the second backward shows that no optimizer has followed the first.
        if self.notes || self.backwards > 1 {
            self.end()
        } else {
            None
        }
    }

    pub(super) fn optimizer_ended(&mut self, who: Optimizer) -> Option<u64> {
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

    pub(super) fn zeroing(&mut self) -> Option<u64> {
        self.optimizers = true;
        if core::mem::replace(&mut self.unstepped, false) {
            self.end()
        } else {
            None
        }
    }

    /// Records a step that the program reports; returns its number.
    pub(super) fn said(&mut self) -> u64 {
        self.told = true;
        self.number += 1;
        self.number
    }
}

/// PyTorch records the use of one of its parts, possibly long before there is a session.
pub(crate) fn used(event: &[u8]) {
    account::is_first(Once::PytorchNotes);
    if event == b"python.optimizer" {
        account::is_first(Once::OptimizerMade);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: Optimizer = (ThreadId(1), 10);
    const B: Optimizer = (ThreadId(1), 20);

    /// Steps that end during a sequence of letters: b backward, A and B optimizers, z zeroing, m and o
    /// the creation of the first module and the first optimizer.
    fn ends(course: &str) -> Vec<usize> {
        let mut steps = Steps::default();
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
        // Each after a separate backward.
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
        let mut steps = Steps::default();
        steps.backward_ended();
        assert_eq!(steps.optimizer_ended(A), Some(1));
        assert_eq!(steps.said(), 2);
        steps.backward_ended();
        assert_eq!(steps.optimizer_ended(A), None);
        assert_eq!(steps.said(), 3);
    }
}
