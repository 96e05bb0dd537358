//! How to get from one frame to the next older one, where the stack pointer and the frame pointer are
//! sufficient.

/// Where the canonical frame address (CFA: the stack pointer before the call) comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Cfa {
    /// The stack pointer plus an offset.
    Sp(i32),
    /// The frame pointer plus an offset.
    Bp(i32),
    /// The word at the frame pointer plus an offset: functions that align their stack.
    AtBp(i32),
}

/// Where the older frame's frame pointer comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum OlderBp {
    /// It is still in the register.
    Same,
    /// The word at the CFA plus an offset.
    AtCfa(i32),
    /// The word at the frame pointer plus an offset.
    AtBp(i32),
}

/// What to do at a return address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// The return address is the word below the CFA.
    Older(Cfa, OlderBp),
    /// There is no older frame.
    End,
    /// Two registers are not enough, or the rule is unknown: the system's unwinder must capture the
    /// whole stack.
    Other,
}

/// A step in 16 bytes, with its return address. All zeros are an empty rule.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub(super) struct Rule {
    pub(super) pc: u64,
    /// Offset × 4 and the kind.
    cfa: i32,
    /// Offset × 2 and the kind, or one of the constants below.
    bp: i32,
}

const SP: i32 = 0;
const BP: i32 = 1;
const AT_BP: i32 = 2;
/// No older frame, or the system's unwinder: `bp` distinguishes them.
const NONE: i32 = 3;

const SAME: i32 = i32::MIN;

impl Rule {
    /// The step at `pc`. If its offsets do not fit, the system's unwinder is used.
    pub(super) fn new(pc: u64, step: Step) -> Self {
        let other = Self {
            pc,
            cfa: NONE,
            bp: 0,
        };
        match step {
            Step::Older(cfa, bp) => {
                let (offset, kind) = match cfa {
                    Cfa::Sp(offset) => (offset, SP),
                    Cfa::Bp(offset) => (offset, BP),
                    Cfa::AtBp(offset) => (offset, AT_BP),
                };
                let bp = match bp {
                    OlderBp::Same => Some(SAME),
                    OlderBp::AtCfa(offset) => offset.checked_mul(2),
                    OlderBp::AtBp(offset) => offset.checked_mul(2).map(|bp| bp | 1),
                };
                match (offset.checked_mul(4), bp) {
                    (Some(cfa), Some(bp)) => Self {
                        pc,
                        cfa: cfa | kind,
                        bp,
                    },
                    _ => other,
                }
            }
            Step::End => Self { bp: 1, ..other },
            Step::Other => other,
        }
    }

    /// What to do.
    #[inline(always)]
    pub(super) fn step(self) -> Step {
        let offset = self.cfa >> 2;
        let cfa = match self.cfa & 3 {
            SP => Cfa::Sp(offset),
            BP => Cfa::Bp(offset),
            AT_BP => Cfa::AtBp(offset),
            _ if self.bp == 1 => return Step::End,
            _ => return Step::Other,
        };
        let bp = match self.bp {
            SAME => OlderBp::Same,
            at if at & 1 == 0 => OlderBp::AtCfa(at >> 1),
            at => OlderBp::AtBp(at >> 1),
        };
        Step::Older(cfa, bp)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_step_is_kept() {
        let offsets = [-4096, -16, -8, 0, 8, 16, 1 << 20];
        let mut steps = vec![Step::End, Step::Other];
        for a in offsets {
            for b in offsets {
                for cfa in [Cfa::Sp(a), Cfa::Bp(a), Cfa::AtBp(a)] {
                    for bp in [OlderBp::Same, OlderBp::AtCfa(b), OlderBp::AtBp(b)] {
                        steps.push(Step::Older(cfa, bp));
                    }
                }
            }
        }
        for step in steps {
            let rule = Rule::new(7, step);
            assert_eq!((rule.pc, rule.step()), (7, step));
        }
    }

    #[test]
    fn what_does_not_fit_is_left_to_others() {
        for step in [
            Step::Older(Cfa::Sp(i32::MAX / 2), OlderBp::Same),
            Step::Older(Cfa::Sp(8), OlderBp::AtCfa(i32::MIN)),
        ] {
            assert_eq!(Rule::new(7, step).step(), Step::Other);
        }
    }
}
