//! The walk from a frame to the next older one, until a frame of the last stack.

use super::rule::{Cfa, OlderBp, Rule, Step};
use super::stack_cache::Place;
use super::state::{Fresh, Joined, Otherwise};
use super::{LEAST_PAIRS, PAIRS, STATES, UNKNOWN, UNTOLD, Unwinder, tables};
use crate::modules::{self, Span};
use crate::{Registers, bounds};
use gpumem_sys::own_stack;

impl Unwinder {
    #[cold]
    fn find_bounds(&mut self) {
        // A thread without known bounds has no stack that can be read safely.
        let (start, end) = bounds::stack().unwrap_or((UNTOLD, UNTOLD));
        (self.start, self.end) = (start, end & !7);
    }

    /// The number of the pair of rules for `pc`.
    #[inline(always)]
    pub(super) fn pair_of(&self, pc: u64) -> usize {
        let hash = pc.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (64 - PAIRS.ilog2());
        hash as usize & (self.more_pairs | (LEAST_PAIRS - 1))
    }

    /// The rule at `pc`.
    #[inline(always)]
    pub(super) fn rule(&mut self, pc: u64) -> Rule {
        let place = self.pair_of(pc);
        let Some([last, other]) = self.rules.get_mut(place) else {
            return Rule::new(pc, Step::Other);
        };
        if last.pc != pc {
            if other.pc != pc {
                *other = learn(pc);
                core::mem::swap(last, other);
                let rule = *last;
                self.learned();
                return rule;
            }
            core::mem::swap(last, other);
        }
        *last
    }

    /// Uses twice as many pairs once as many rules were read as there are pairs. Rules that have another place then are
    /// read again.
    #[cold]
    #[inline(never)]
    fn learned(&mut self) {
        self.rules_learned += 1;
        let pairs = (self.more_pairs | (LEAST_PAIRS - 1)) + 1;
        if self.rules_learned > pairs && pairs < PAIRS {
            (self.more_pairs, self.rules_learned) = (2 * pairs - 1, 0);
        }
    }

    #[inline]
    pub(super) fn walk(&mut self, from: Registers) -> Result<Joined, Otherwise> {
        if self.end == UNKNOWN {
            self.find_bounds();
        }
        let Registers {
            mut pc,
            mut sp,
            mut bp,
        } = from;
        // Another stack than the thread's own (a fiber's, a signal handler's) has other bounds.
        if sp < self.start || sp >= self.end || sp & 7 != 0 {
            return Err(Otherwise::Foreign);
        }
        let last = self.end - 8;
        let load = |at: u64, sp: u64| {
            let inside = at >= sp && at <= last && at & 7 == 0;
            // SAFETY: an aligned word between the frame's stack pointer and the stack's end.
            inside.then(|| unsafe { *(at as *const u64) })
        };
        let mut known = if self.lasting { self.states_len } else { 0 };
        // The stack pointer of the newest known frame: a newer frame is not a known one.
        let mut known_sp = self.sp_of(known);
        let mut len = 0;
        loop {
            while known_sp <= sp {
                let at = Place { pc, sp, bp };
                let newest = known
                    .checked_sub(1)
                    .and_then(|newest| self.states.get(newest));
                if newest.is_none_or(|newest| !newest.is_at(at)) {
                    known -= 1;
                } else if let Some(changed) = self.changed(known) {
                    known = changed;
                } else if known + len <= STATES {
                    return Ok(Joined { keep: known, len });
                } else {
                    known = 0; // more than there is room for
                }
                known_sp = self.sp_of(known);
            }
            let rule = self.rule(pc);
            let Some(place) = self.fresh.get_mut(len) else {
                return Err(Otherwise::Full);
            };
            let mut frame = Fresh {
                at: Place { pc, sp, bp },
                ..Fresh::default()
            };
            len += 1;
            let (cfa, older_bp) = match rule.step() {
                Step::Older(cfa, bp) => (cfa, bp),
                end => {
                    *place = frame;
                    return match end {
                        Step::End => Ok(Joined { keep: 0, len }),
                        _ => Err(Otherwise::Unknown { pc, len }),
                    };
                }
            };
            let offset = |base: u64, offset: i32| base.wrapping_add(i64::from(offset) as u64);
            let cfa = match cfa {
                Cfa::Sp(at) => offset(sp, at),
                Cfa::Bp(at) => {
                    frame.by_bp = true;
                    offset(bp, at)
                }
                Cfa::AtBp(at) => {
                    frame.by_bp = true;
                    frame.cfa_slot = offset(bp, at);
                    let slot = frame.cfa_slot;
                    match load(slot, sp) {
                        Some(cfa) => cfa,
                        None => {
                            *place = frame;
                            return Err(Otherwise::Outside { slot, len });
                        }
                    }
                }
            };
            let bp_slot = match older_bp {
                OlderBp::Same => 0,
                OlderBp::AtCfa(at) => offset(cfa, at),
                OlderBp::AtBp(at) => {
                    frame.by_bp = true;
                    offset(bp, at)
                }
            };
            frame.bp_slot = bp_slot;
            *place = frame;
            let slot = cfa.wrapping_sub(8);
            if cfa <= sp {
                return Err(Otherwise::Outside { slot, len });
            }
            if bp_slot != 0 {
                match load(bp_slot, sp) {
                    Some(older) => bp = older,
                    None => return Err(Otherwise::Outside { slot: bp_slot, len }),
                }
            }
            match load(slot, sp) {
                Some(0) => return Err(Otherwise::Ended { len }),
                Some(older) => pc = older,
                None => return Err(Otherwise::Outside { slot, len }),
            }
            sp = cfa;
        }
    }

    /// The stack pointer of the newest of the `known` oldest states; above every stack pointer if `known` is 0.
    #[inline(always)]
    fn sp_of(&self, known: usize) -> u64 {
        let newest = known
            .checked_sub(1)
            .and_then(|newest| self.states.get(newest));
        newest.map_or(u64::MAX, |newest| newest.at.sp)
    }

    /// Checks whether all frames older than the newest of `states[..known]` are unchanged; if not, returns how
    /// many of the oldest may still be.
    #[inline]
    fn changed(&self, known: usize) -> Option<usize> {
        let newest = known
            .checked_sub(1)
            .and_then(|newest| self.states.get(newest));
        let words = self
            .words
            .get(..newest.map_or(0, |newest| newest.words as usize));
        let changed = words.unwrap_or_default().iter().rposition(|word| {
            // SAFETY: of frames that are older than the one that is running: it was inside the stack's bounds when
            // it was read, and what lies above the stack pointer stays mapped.
            unsafe { *(word.at as *const u64) != word.held }
        })?;
        let states = self.states.get(..known).unwrap_or_default();
        Some(states.partition_point(|state| state.words as usize <= changed))
    }

    /// Puts the fresh frames on top of the unchanged ones.
    #[inline]
    pub(super) fn join(&mut self, keep: usize, len: usize, own: &Span) {
        let before = keep.checked_sub(1).and_then(|last| self.states.get(last));
        let mut newest = before.copied().unwrap_or_default();
        let fresh = self.fresh.get(..len).unwrap_or_default();
        let free = self.states.get_mut(keep..).unwrap_or_default();
        for (place, frame) in free.iter_mut().zip(fresh.iter().rev()) {
            // The oldest frame is not on top of another one.
            if newest.at.sp != 0 {
                let mut count = newest.words;
                newest.words_from(frame, |word| {
                    if let Some(place) = self.words.get_mut(count as usize) {
                        *place = word;
                        count += 1;
                    }
                });
                newest.words = count;
            }
            newest = newest.newer(frame, own.contains(frame.at.pc.wrapping_sub(1)));
            *place = newest;
        }
        self.states_len = keep + len;
        self.entry = 0;
    }
}

#[cold]
fn learn(pc: u64) -> Rule {
    modules::look();
    Rule::new(pc, own_stack::run(|| tables::step(pc)))
}
