//! The unwinder of x86-64: remembers rules by return address, and whole stacks by their slots.
//!
//! A frame's state is (return address, stack pointer, frame pointer). With the unwind tables it determines the next
//! older state, except for the contents of three stack slots: the older return address, the saved frame pointer, and,
//! where a function aligns its stack, the saved CFA. So if the last capture had the same state, and the slots of all
//! older frames are unchanged, the rest of the stack is that of the last capture. If an earlier walk started at the
//! same place, its words are compared first ([`stack_cache`]).
//!
//! | step | cost |
//! |---|---|
//! | an unchanged frame, in a stack that was walked before | the loads of its slots |
//! | a frame with a known rule | a look-up in a per-thread table |
//! | an unknown return address | the system's unwinder finds the table entry, gimli reads it |
//! | a rule that two registers cannot express, generated code with tables | the system's unwinder captures the stack |
//! | code in no module and without tables | some look-ups and system calls; the stack ends |
//! | a word at an address without memory | a system call; the stack ends |
//! | another stack than the thread's own | a system call for each of its pages ([`foreign`]) |

mod cached;
mod foreign;
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
/// Pairs that are used at first: a page, because most threads run little code.
const LEAST_PAIRS: usize = 1 << 7;
/// States of a stack that are remembered: those of a walk, and room for it to become deeper.
const STATES: usize = WALK + 2 * SPARE;

const _: () = assert!(WALK + STATES < u16::MAX as usize);

/// The end of a stack whose bounds have not been determined yet.
const UNKNOWN: u64 = 0;
/// The end of a stack whose bounds the system does not report: no address is before it.
const UNTOLD: u64 = 1;

/// One thread's unwinder. All zeros are an empty unwinder, so that its half a megabyte need not be initialised.
pub struct Unwinder {
    /// Two rules for return addresses with the same slot, the most recently used first. The few thousand addresses of
    /// a training would evict each other from single slots, and reading a rule again takes a microsecond.
    rules: [[Rule; 2]; PAIRS],
    /// The pairs in use, minus one; [`LEAST_PAIRS`] if that is more.
    more_pairs: usize,
    /// Rules read since it last changed.
    rules_learned: usize,
    /// The generation of module unloads that the rules are based on.
    generation: u64,
    /// The bounds of this thread's stack; the end may be one of the two constants above.
    start: u64,
    end: u64,
    /// The last stack that was walked, the oldest frame first.
    states: [State; STATES],
    states_len: usize,
    /// The words that show that its frames are unchanged, those of the oldest frame first.
    words: [Word; 3 * STATES],
    /// Stacks that were walked before.
    cache: StackCache,
    /// The last stack is the cache's entry at this index minus one; 0: it is in `states`.
    entry: usize,
    /// Whether the oldest of `states` is the stack's oldest frame. Otherwise they are the newest frames of a deep
    /// stack, and sufficient as long as they cover all frames that are kept.
    whole: bool,
    /// Whether that holds wherever the same state occurs again.
    lasting: bool,
    /// The last stack that was too deep.
    deep: Deep,
    /// Frames up to a known one, the newest first.
    fresh: [Fresh; WALK],
    /// The last stack, if the system's unwinder took it, the newest frame first.
    others: [u64; FRAMES],
    others_len: usize,
    from_system: bool,
    system_stacks: u64,
}

/// A stack that is too deep: only its hash, its number of frames and its newest frames are remembered.
struct Deep {
    hash: u64,
    kept: u16,
    stack: Stack,
}

impl Unwinder {
    /// Continues with another thread.
    pub fn change_thread(&mut self) {
        self.end = UNKNOWN;
        self.states_len = 0;
        self.cache.clear();
    }

    /// Captures the calling thread's stack from `from` on, or from its caller if `from` is None. Frames in `own`,
    /// which is the same in all calls, are omitted.
    #[inline]
    pub fn take(&mut self, from: Option<Registers>, own: Option<Span>) -> Stack {
        // Must be inlined here: the frame of a closure would be gone before the walk.
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
            // Reading a new rule may have detected unloaded modules.
            let generation = modules::generation();
            if generation != self.generation {
                self.forget(generation);
                continue;
            }
            let Joined { keep, len } = match walked {
                Ok(joined) => joined,
                Err(otherwise) => return self.otherwise(otherwise, from, own),
            };
            self.join(keep, len, own);
            self.whole |= keep == 0;
            self.lasting = true;
            self.from_system = false;
            if self.is_enough() {
                self.remember(own);
                return self.stack();
            }
            // The stack is less deep than the remembered deep stack: walk it without remembered frames.
            self.states_len = 0;
        }
    }

    /// The note on the last stack, if it is a note of `by`.
    #[inline]
    pub fn noted(&self, by: u64) -> Option<u32> {
        self.cache.noted(self.entry.checked_sub(1)?, by)
    }

    /// Adds a note, which is not 0, to the last stack; it may be lost. [`Self::noted`] returns it when the stack
    /// occurs again. Drops all notes of others than `by`.
    pub fn note(&mut self, by: u64, note: u32) {
        if let Some(place) = self.entry.checked_sub(1) {
            self.cache.note(place, by, note);
        }
    }

    /// Whether the remembered frames cover all frames that are kept.
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

    /// The system's unwinder reads at any address that the tables lead to, and greenlets leave stacks that lead to
    /// invalid addresses: such a stack ends there.
    #[cold]
    #[inline(never)]
    fn otherwise(&mut self, otherwise: Otherwise, from: Registers, own: &Span) -> Stack {
        let (len, whole) = match otherwise {
            Otherwise::Ended { len } => (len, true),
            Otherwise::Outside { slot, len } if !bounds::is_readable(slot) => (len, true),
            Otherwise::Unknown { pc, len } if tables::is_no_code(pc) => (len, true),
            Otherwise::Full => (WALK, false),
            Otherwise::Outside { .. } | Otherwise::Foreign => return self.foreign(from, own),
            Otherwise::Unknown { .. } => return self.system(own),
        };
        self.join(0, len, own);
        // If the stack continues while the slots are unchanged, the same state occurs again.
        (self.whole, self.lasting) = (whole, !whole);
        self.from_system = false;
        self.stack()
    }

    /// The number of stacks that the system's unwinder had to capture.
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
        // What was never used stays without memory.
        let used = (self.more_pairs | (LEAST_PAIRS - 1)) + 1;
        self.rules
            .iter_mut()
            .take(used)
            .for_each(|pair| *pair = [Rule::default(); 2]);
        self.states_len = 0;
        self.cache.clear();
        self.generation = generation;
    }

    /// Captures a stack that is too deep: its newest frames.
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
