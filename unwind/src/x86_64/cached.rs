//! Takes a stack from the cache, and adds walked ones to it.

use super::Unwinder;
use super::stack_cache::{self, Place, Walked};
use crate::modules::{self, Span};
use crate::{FRAMES, Registers, Stack};

impl Unwinder {
    /// The stack, if it is in the cache and unchanged.
    #[inline(always)]
    pub(super) fn cached(&mut self, from: &Registers) -> Option<Stack> {
        let Registers { pc, sp, bp } = *from;
        // A stack other than the thread's own has other words at these addresses.
        if sp < self.start || sp >= self.end || self.generation != modules::generation() {
            return None;
        }
        // SAFETY: `from` lies on this thread's stack, and all entries were walked on that.
        let place = unsafe { self.cache.find(Place { pc, sp, bp }) }?;
        (self.entry, self.from_system) = (place + 1, false);
        let entry = self.cache.entry(place);
        Some(Stack {
            hash: entry.hash,
            len: entry.len.into(),
            truncated: false,
        })
    }

    /// Adds the last stack, which has just been walked, to the cache.
    #[inline(never)]
    pub(super) fn remember(&mut self, own: &Span) {
        let newest = self.newest();
        let count = newest.words as usize;
        if !self.whole || count > stack_cache::MOST || usize::from(newest.kept) > FRAMES {
            return;
        }
        let mut kept = [false; stack_cache::MOST];
        for state in self.states.get(..self.states_len).unwrap_or_default() {
            // The first word of a frame is the return address that leads to the older frame.
            if let Some(kept) = kept.get_mut(state.words as usize) {
                *kept = !own.contains(state.at.pc.wrapping_sub(1));
            }
        }
        self.cache.add(&Walked {
            from: newest.at,
            by_bp: newest.by_bp,
            words: self.words.get(..count).unwrap_or_default(),
            kept: kept.get(..count).unwrap_or_default(),
            first_is_kept: !own.contains(newest.at.pc.wrapping_sub(1)),
            hash: newest.hash,
            len: newest.kept.into(),
        });
    }
}
