//! The unwinder of x86-64: rules remembered by return address, and whole stacks remembered by their
//! slots.
//!
//! A frame's state is (return address, stack pointer, frame pointer). With the unwind tables it
//! determines the next older state, but for what three slots of the stack hold: the older return
//! address, the saved frame pointer, and, where a function aligns its stack, the saved CFA. So if a
//! state is one that the last capture had, and the slots of all older frames still hold what they held,
//! the rest of the stack is that of the last capture. And where a walk from the same place was made before, its
//! words are compared before all else ([`stack_cache`]).
//!
//! | what | cost |
//! |---|---|
//! | a frame that is as it was, in a stack that was walked before | the loads of its slots |
//! | a frame with a known rule | a look-up in a table of this thread's own |
//! | an unknown return address | the system's unwinder is asked for its table entry, gimli reads it |
//! | a rule that two registers cannot express, made code with tables | the system's unwinder does the stack |
//! | code in no module and without tables | some look-ups and system calls; the stack ends |
//! | a word that no memory holds | a system call; the stack ends |

mod cached;
mod rule;
mod stack_cache;
mod state;
mod tables;
mod walk;

use rule::Rule;
use stack_cache::{StackCache, Word};
use state::{Fresh, Joined, Otherwise, SPARE, State, WALK};

use crate::modules::{self, Span};
use crate::{FRAMES, Registers, Stack, bounds, chain, system};

/// Pairs of rules that are remembered, a power of two: 128 KiB.
const PAIRS: usize = 1 << 12;
/// States of a stack that are remembered: those of a walk, and room for it to become deeper.
const STATES: usize = WALK + 2 * SPARE;

const _: () = assert!(WALK + STATES < u16::MAX as usize);

/// End of a stack whose bounds are not known yet.
const UNKNOWN: u64 = 0;
/// End of one whose bounds the system does not tell: nothing lies before it.
const UNTOLD: u64 = 1;

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
    /// Stacks that were walked before.
    cache: StackCache,
    /// The last stack is the cache's entry at this place less one; 0: that of `states`.
    entry: usize,
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
    from_system: bool,
    system_stacks: u64,
}

/// A stack that is too deep: of all that is remembered of it, the hash and how many frames; and what is kept.
struct Deep {
    hash: u64,
    kept: u16,
    stack: Stack,
}

impl Unwinder {
    /// For another thread from now on.
    pub fn change_thread(&mut self) {
        self.end = UNKNOWN;
        self.states_len = 0;
        self.cache.clear();
    }

    /// Takes the calling thread's stack from `from` on, or its own caller's if there is none to begin
    /// with. Frames in `own`, which is the same in all calls, are left out.
    #[inline]
    pub fn take(&mut self, from: Option<Registers>, own: Option<Span>) -> Stack {
        // Inlined here, which a function passed on would not be: it would be gone before the walk.
        let from = match from {
            Some(from) => from,
            None => Registers::here(),
        };
        match self.cached(&from) {
            Some(stack) => stack,
            None => self.walked(from, &own.unwrap_or(Span::NONE)),
        }
    }

    #[inline(never)]
    fn walked(&mut self, from: Registers, own: &Span) -> Stack {
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
            self.from_system = false;
            if self.is_enough() {
                self.remember(own);
                return self.stack();
            }
            // Of a deep stack that is less deep now: walked with nothing remembered.
            self.states_len = 0;
        }
    }

    /// What was noted of the last stack, if `by` noted it.
    #[inline]
    pub fn noted(&self, by: u64) -> Option<u32> {
        self.cache.noted(self.entry.checked_sub(1)?, by)
    }

    /// Notes a number that is not 0 of the last stack, to be had when it is met again, or else lost. What others than
    /// `by` noted of any stack is forgotten.
    pub fn note(&mut self, by: u64, note: u32) {
        if let Some(place) = self.entry.checked_sub(1) {
            self.cache.note(place, by, note);
        }
    }

    /// Whether what is remembered makes all frames that are kept.
    #[inline(always)]
    fn is_enough(&self) -> bool {
        self.whole || usize::from(self.newest().kept) >= FRAMES
    }

    #[inline(always)]
    fn stack(&mut self) -> Stack {
        let newest = self.newest();
        let (hash, len) = (newest.hash, usize::from(newest.kept));
        if len > FRAMES || !self.whole {
            return self.truncated();
        }
        Stack {
            hash,
            len,
            truncated: false,
        }
    }

    /// The system's unwinder reads wherever the tables lead it, and greenlets leave stacks that lead it
    /// nowhere: such a stack ends there.
    #[cold]
    #[inline(never)]
    fn otherwise(&mut self, otherwise: Otherwise, own: &Span) -> Stack {
        let (len, whole) = match otherwise {
            Otherwise::Ended { len } => (len, true),
            Otherwise::Outside { slot, len } if !bounds::is_readable(slot) => (len, true),
            Otherwise::Unknown { pc, len } if tables::is_no_code(pc) => (len, true),
            Otherwise::Full => (WALK, false),
            _ => return self.system(own),
        };
        self.join(0, len, own);
        // Where the stack goes on as long as the slots hold what they held, it is met again.
        (self.whole, self.lasting) = (whole, !whole);
        self.from_system = false;
        self.stack()
    }

    /// How many stacks the system's unwinder had to take.
    pub fn system_stacks(&self) -> u64 {
        self.system_stacks
    }

    /// Writes the frames of the last stack, the newest first, as many as there is room for.
    pub fn frames(&self, out: &mut [u64]) -> usize {
        if self.from_system {
            let frames = self.others.get(..self.others_len).unwrap_or_default();
            return copy(frames.iter().copied(), out);
        }
        let Some(place) = self.entry.checked_sub(1) else {
            return copy(self.newest_first(), out);
        };
        copy(self.cache.frames(place), out)
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
        self.cache.clear();
        self.generation = generation;
    }

    /// Of a stack that is too deep: its newest frames.
    #[cold]
    fn truncated(&mut self) -> Stack {
        let State { hash, kept, .. } = self.newest();
        if (hash, kept) == (self.deep.hash, self.deep.kept) {
            return self.deep.stack;
        }
        let mut frames = [0; FRAMES];
        let len = self.frames(&mut frames);
        let frames = frames.get(..len).unwrap_or_default();
        let stack = Stack {
            hash: frames.iter().rev().fold(0, |hash, pc| chain(hash, *pc)),
            len,
            truncated: true,
        };
        self.deep = Deep { hash, kept, stack };
        stack
    }

    #[cold]
    fn system(&mut self, own: &Span) -> Stack {
        self.states_len = 0;
        (self.from_system, self.entry) = (true, 0);
        self.system_stacks += 1;
        let (stack, len) = system::take(&mut self.others, own);
        self.others_len = len;
        stack
    }
}

fn copy(from: impl Iterator<Item = u64>, out: &mut [u64]) -> usize {
    from.zip(out).map(|(frame, place)| *place = frame).count()
}

#[cfg(test)]
mod tests;
