//! Stacks that were walked before.

use super::Unwinder;
use super::paths::{self, Place, Walked};
use crate::modules::{self, Span};
use crate::{FRAMES, Registers, Taken};

impl Unwinder {
    /// The stack, if it was walked before and is as it was.
    #[inline(always)]
    pub(super) fn by_path(&mut self, from: &Registers) -> Option<Taken> {
        let Registers { pc, sp, bp } = *from;
        // Another stack than the thread's own has other words at these places.
        if sp < self.start || sp >= self.end || self.generation != modules::generation() {
            return None;
        }
        // SAFETY: `from` lies on this thread's stack, and all ways were walked on that.
        let place = unsafe { self.paths.find(Place { pc, sp, bp }) }?;
        (self.by_path, self.by_system) = (place + 1, false);
        let path = self.paths.path(place);
        Some(Taken {
            hash: path.hash,
            len: path.len.into(),
            truncated: false,
        })
    }

    /// Remembers the last stack, which has just been walked.
    #[inline(never)]
    pub(super) fn remember_path(&mut self, own: &Span) {
        let newest = self.newest();
        let count = newest.words as usize;
        if !self.whole || count > paths::MOST || usize::from(newest.kept) > FRAMES {
            return;
        }
        let mut kept = [false; paths::MOST];
        for state in self.states.get(..self.states_len).unwrap_or_default() {
            // The first of a frame's words is the return address that leads to the older one.
            if let Some(kept) = kept.get_mut(state.words as usize) {
                *kept = !own.contains(state.at.pc.wrapping_sub(1));
            }
        }
        self.paths.add(&Walked {
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
