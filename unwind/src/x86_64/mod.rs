//! The unwinder of x86-64: rules remembered by return address, and whole stacks remembered by their
//! slots.
//!
//! A frame's state is (return address, stack pointer, frame pointer). With the unwind tables it
//! determines the next older state, but for what three slots of the stack hold: the older return
//! address, the saved frame pointer, and, where a function aligns its stack, the saved CFA. So if a
//! state is one that the last capture had, and the slots of all older frames still hold what they held,
//! the rest of the stack is that of the last capture. And where a walk from the same place was made before, its
//! words are compared before all else ([`paths`]).
//!
//! | what | cost |
//! |---|---|
//! | a frame that is as it was, in a stack that was walked before | the loads of its slots |
//! | a frame with a known rule | a look-up in a table of this thread's own |
//! | an unknown return address | the system's unwinder is asked for its table entry, gimli reads it |
//! | a rule that two registers cannot express, made code with tables | the system's unwinder does the stack |
//! | code in no module and without tables | some look-ups and system calls; the stack ends |
//! | a word that no memory holds | a system call; the stack ends |

mod by_path;
mod paths;
mod rule;
mod tables;

use paths::{Paths, Place, Word};
use rule::{Cfa, OlderBp, Rule, Step};

use crate::modules::{self, Span};
use crate::{FRAMES, Registers, Taken, bounds, by_system, chain};

/// Pairs of rules that are remembered, a power of two: 128 KiB.
const PAIRS: usize = 1 << 12;
/// How many frames more than are kept a walk goes through: those that are left out, and room for a deep
/// stack to become less deep before it has to be walked anew.
const SPARE: usize = 256;
/// Frames of one walk.
const WALK: usize = FRAMES + SPARE;
/// States of a stack that are remembered: those of a walk, and room for it to become deeper.
const STATES: usize = WALK + 2 * SPARE;

/// End of a stack whose bounds are not known yet.
const UNKNOWN: u64 = 0;
/// End of one whose bounds the system does not tell: nothing lies before it.
const UNTOLD: u64 = 1;

/// A frame on the way to one that is known. Slots are addresses on the stack; 0: none.
#[derive(Clone, Copy, Debug, Default)]
struct Fresh {
    at: Place,
    /// Where the older frame pointer was read.
    bp_slot: u64,
    /// Where the CFA was read.
    cfa_slot: u64,
    /// Whether the frame pointer was gone by.
    by_bp: bool,
}

const _: () = assert!(WALK + STATES < u16::MAX as usize);

/// A frame of the last stack.
#[derive(Clone, Copy, Debug, Default)]
struct State {
    at: Place,
    /// Of this frame and all older ones.
    hash: u64,
    /// How many of those are kept.
    kept: u16,
    /// Whether the walk from here goes by the frame pointer; if not, it is of no account what that is.
    by_bp: bool,
    /// How many words show that all those are as they were, if this frame is.
    words: u32,
}

impl State {
    /// Whether the walk from this frame on is that from `at` on, where the words are the same.
    #[inline(always)]
    fn is_at(&self, at: Place) -> bool {
        let Place { pc, sp, bp } = self.at;
        (pc, sp) == (at.pc, at.sp) && (bp == at.bp || !self.by_bp)
    }

    /// The frame that lies on this one.
    #[inline(always)]
    fn newer(&self, frame: &Fresh, is_own: bool) -> Self {
        Self {
            at: frame.at,
            hash: match is_own {
                true => self.hash,
                false => chain(self.hash, frame.at.pc),
            },
            kept: self.kept + u16::from(!is_own),
            by_bp: frame.by_bp || (frame.bp_slot == 0 && self.by_bp),
            words: self.words,
        }
    }

    /// Gives the words by which a walk comes from `frame` to this one.
    #[inline(always)]
    fn words_from(&self, frame: &Fresh, mut take: impl FnMut(Word)) {
        let Place { pc, sp, bp } = self.at;
        take(Word {
            at: sp.wrapping_sub(8),
            held: pc,
        });
        if self.by_bp && frame.bp_slot != 0 {
            take(Word {
                at: frame.bp_slot,
                held: bp,
            });
        }
        if frame.cfa_slot != 0 {
            take(Word {
                at: frame.cfa_slot,
                held: sp,
            });
        }
    }
}

/// One thread's unwinder. All zeros are one that has seen nothing, so that its half a megabyte need not be
/// written to be had.
pub struct Unwinder {
    /// Two for return addresses that fall on the same place, the one that was met last first: a training's
    /// few thousand would push one another out of single places, and to read a rule anew takes a microsecond.
    rules: [[Rule; 2]; PAIRS],
    /// Unloads of modules that the rules know of.
    generation: u64,
    /// Where this thread's stack lies; the end may be one of the two words above.
    start: u64,
    end: u64,
    /// The last stack that was walked, the oldest frame first.
    states: [State; STATES],
    states_len: usize,
    /// The words that show that its frames are as they were, those of the oldest frame first.
    words: [Word; 3 * STATES],
    /// Ways that were walked before.
    paths: Paths,
    /// The last stack is the way at this place less one; 0: that of `states`.
    by_path: usize,
    /// Whether the oldest of them is the stack's oldest frame. If not, they are the newest of a deep stack,
    /// and enough as long as they make all frames that are kept.
    whole: bool,
    /// Whether that is so wherever the same state is met again.
    lasting: bool,
    /// The last one that was too deep.
    deep: Deep,
    /// Frames on the way to one that is known, the newest first.
    fresh: [Fresh; WALK],
    /// The last stack, if the system's unwinder took it, the newest frame first.
    others: [u64; FRAMES],
    others_len: usize,
    by_system: bool,
    by_system_so_far: u64,
}

/// A stack that is too deep: of all that is remembered of it, the hash and how many frames; and what is kept.
struct Deep {
    hash: u64,
    kept: u16,
    taken: Taken,
}

/// `states[..keep]` goes on where `fresh[..len]` ends.
struct Joined {
    keep: usize,
    len: usize,
}

/// How else a walk ended.
enum Otherwise {
    /// The stack ends where `fresh[..len]` ends, for now: not by a rule, but by what some word held.
    Ended { len: usize },
    /// After `len` frames the next word, at `slot`, is not on the thread's stack.
    Outside { slot: u64, len: usize },
    /// No rule is for the return address of the last of `len` frames.
    Unknown { pc: u64, len: usize },
    /// There was no room for older frames.
    Full,
    /// Only the system's unwinder can.
    Other,
}

impl Unwinder {
    /// For another thread from now on.
    pub fn change_thread(&mut self) {
        self.end = UNKNOWN;
        self.states_len = 0;
        self.paths.clear();
    }

    /// Takes the calling thread's stack from `from` on, or its own caller's if there is none to begin
    /// with. Frames in `own`, which is the same in all calls, are left out.
    #[inline]
    pub fn take(&mut self, from: Option<Registers>, own: Option<Span>) -> Taken {
        // Inlined here, which a function passed on would not be: it would be gone before the walk.
        let from = match from {
            Some(from) => from,
            None => Registers::here(),
        };
        match self.by_path(&from) {
            Some(taken) => taken,
            None => self.by_walk(from, &own.unwrap_or(Span::NONE)),
        }
    }

    #[inline(never)]
    fn by_walk(&mut self, from: Registers, own: &Span) -> Taken {
        loop {
            let walked = self.walk(from);
            // A rule that was learnt meanwhile may have told of modules that are gone.
            let generation = modules::generation();
            if generation != self.generation {
                self.forget(generation);
                continue;
            }
            let Joined { keep, len } = match walked {
                Ok(joined) => joined,
                Err(otherwise) => return self.otherwise(otherwise, own),
            };
            self.join(keep, len, own);
            self.whole |= keep == 0;
            self.lasting = true;
            self.by_system = false;
            if self.is_enough() {
                self.remember_path(own);
                return self.taken();
            }
            // Of a deep stack that is less deep now: walked with nothing remembered.
            self.states_len = 0;
        }
    }

    /// What was noted of the last stack, if `by` noted it.
    #[inline]
    pub fn noted(&self, by: u64) -> Option<u32> {
        self.paths.noted(self.by_path.checked_sub(1)?, by)
    }

    /// Notes a number that is not 0 of the last stack, to be had when it is met again, or else lost. What others than
    /// `by` noted of any stack is forgotten.
    pub fn note(&mut self, by: u64, note: u32) {
        if let Some(place) = self.by_path.checked_sub(1) {
            self.paths.note(place, by, note);
        }
    }

    /// Whether what is remembered makes all frames that are kept.
    #[inline(always)]
    fn is_enough(&self) -> bool {
        self.whole || usize::from(self.newest().kept) >= FRAMES
    }

    #[inline(always)]
    fn taken(&mut self) -> Taken {
        let newest = self.newest();
        let (hash, len) = (newest.hash, usize::from(newest.kept));
        if len > FRAMES || !self.whole {
            return self.truncated();
        }
        Taken {
            hash,
            len,
            truncated: false,
        }
    }

    /// The system's unwinder reads wherever the tables lead it, and greenlets leave stacks that lead it
    /// nowhere: such a stack ends there.
    #[cold]
    #[inline(never)]
    fn otherwise(&mut self, otherwise: Otherwise, own: &Span) -> Taken {
        let (len, whole) = match otherwise {
            Otherwise::Ended { len } => (len, true),
            Otherwise::Outside { slot, len } if !bounds::is_readable(slot) => (len, true),
            Otherwise::Unknown { pc, len } if tables::is_no_code(pc) => (len, true),
            Otherwise::Full => (WALK, false),
            _ => return self.by_system(own),
        };
        self.join(0, len, own);
        // Where the stack goes on as long as the slots hold what they held, it is met again.
        (self.whole, self.lasting) = (whole, !whole);
        self.by_system = false;
        self.taken()
    }

    /// How many stacks the system's unwinder had to take.
    pub fn by_system_so_far(&self) -> u64 {
        self.by_system_so_far
    }

    /// Writes the frames of the last stack, the newest first, as many as there is room for.
    pub fn frames(&self, out: &mut [u64]) -> usize {
        if self.by_system {
            let frames = self.others.get(..self.others_len).unwrap_or_default();
            return copy(frames.iter().copied(), out);
        }
        let Some(place) = self.by_path.checked_sub(1) else {
            return copy(self.newest_first(), out);
        };
        copy(self.paths.frames(place), out)
    }

    fn newest(&self) -> State {
        let newest = self.states_len.checked_sub(1);
        let newest = newest.and_then(|newest| self.states.get(newest));
        newest.copied().unwrap_or_default()
    }

    /// The frames of `states` that are kept, the newest first.
    fn newest_first(&self) -> impl Iterator<Item = u64> {
        let states = self.states.get(..self.states_len).unwrap_or_default();
        let kept_before = |place: usize| {
            let before = place.checked_sub(1).and_then(|before| states.get(before));
            before.map_or(0, |before| before.kept)
        };
        let all = states.iter().enumerate().rev();
        all.filter(move |(place, state)| state.kept != kept_before(*place))
            .map(|(_, state)| state.at.pc)
            .take(FRAMES)
    }

    #[cold]
    fn forget(&mut self, generation: u64) {
        self.rules.fill([Rule::default(); 2]);
        self.states_len = 0;
        self.paths.clear();
        self.generation = generation;
    }

    #[cold]
    fn find_bounds(&mut self) {
        // A thread whose bounds are not told has no stack that could be read safely.
        let (start, end) = bounds::stack().unwrap_or((UNTOLD, UNTOLD));
        (self.start, self.end) = (start, end & !7);
    }

    /// The rule at `pc`.
    #[inline(always)]
    fn rule(&mut self, pc: u64) -> Rule {
        let place = (pc.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 52) as usize;
        const { assert!(PAIRS == 1 << (64 - 52)) };
        let Some([last, other]) = self.rules.get_mut(place) else {
            return Rule::new(pc, Step::Other);
        };
        if last.pc != pc {
            if other.pc != pc {
                *other = learn(pc);
            }
            core::mem::swap(last, other);
        }
        *last
    }

    #[inline]
    fn walk(&mut self, from: Registers) -> Result<Joined, Otherwise> {
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
            return Err(Otherwise::Other);
        }
        let last = self.end - 8;
        let load = |at: u64, sp: u64| {
            let inside = at >= sp && at <= last && at & 7 == 0;
            // SAFETY: an aligned word between the frame's stack pointer and the stack's end.
            inside.then(|| unsafe { *(at as *const u64) })
        };
        let mut known = if self.lasting { self.states_len } else { 0 };
        // Where the newest of them lies: a frame that is newer is none of them.
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

    /// The stack pointer of the newest of so many of the oldest states; what no stack pointer reaches if there is
    /// none.
    #[inline(always)]
    fn sp_of(&self, known: usize) -> u64 {
        let newest = known
            .checked_sub(1)
            .and_then(|newest| self.states.get(newest));
        newest.map_or(u64::MAX, |newest| newest.at.sp)
    }

    /// Whether all frames older than the newest of `states[..known]` are as they were; if not, how many of the
    /// oldest may still be.
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

    /// Puts the fresh frames on top of those that are as they were.
    #[inline]
    fn join(&mut self, keep: usize, len: usize, own: &Span) {
        let before = keep.checked_sub(1).and_then(|last| self.states.get(last));
        let mut newest = before.copied().unwrap_or_default();
        let fresh = self.fresh.get(..len).unwrap_or_default();
        let free = self.states.get_mut(keep..).unwrap_or_default();
        for (place, frame) in free.iter_mut().zip(fresh.iter().rev()) {
            // The oldest of all lies on none.
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
        self.by_path = 0;
    }

    /// Of a stack that is too deep: its newest frames.
    #[cold]
    fn truncated(&mut self) -> Taken {
        let State { hash, kept, .. } = self.newest();
        if (hash, kept) == (self.deep.hash, self.deep.kept) {
            return self.deep.taken;
        }
        let mut frames = [0; FRAMES];
        let len = self.frames(&mut frames);
        let frames = frames.get(..len).unwrap_or_default();
        let taken = Taken {
            hash: frames.iter().rev().fold(0, |hash, pc| chain(hash, *pc)),
            len,
            truncated: true,
        };
        self.deep = Deep { hash, kept, taken };
        taken
    }

    #[cold]
    fn by_system(&mut self, own: &Span) -> Taken {
        self.states_len = 0;
        (self.by_system, self.by_path) = (true, 0);
        self.by_system_so_far += 1;
        let (taken, len) = by_system::take(&mut self.others, own);
        self.others_len = len;
        taken
    }
}

#[cold]
fn learn(pc: u64) -> Rule {
    modules::look();
    Rule::new(pc, tables::step(pc))
}

fn copy(from: impl Iterator<Item = u64>, out: &mut [u64]) -> usize {
    from.zip(out).map(|(frame, place)| *place = frame).count()
}

#[cfg(test)]
mod tests;
