//! Stacks that are a way that was walked before, on top of frames that are known.

use super::paths::{self, Place, Walked};
use super::{Joined, Unwinder};
use crate::modules::{self, Span};
use crate::{FRAMES, Registers, Taken, chain};

impl Unwinder {
    /// The stack, if it is a way that was walked before and older frames that are as they were.
    #[inline]
    pub(super) fn by_path(&mut self, from: &Registers, own: &Span) -> Option<Taken> {
        let Registers { pc, sp, bp } = *from;
        let at = Place { pc, sp, bp };
        // The newest frame is known: there is no way to it.
        let is_apart = self.lasting && self.whole && !self.newest().is_at(at);
        // Another stack than the thread's own has other words at these places.
        if !is_apart
            || sp < self.start
            || sp >= self.end
            || self.generation != modules::generation()
        {
            return None;
        }
        // SAFETY: `at` lies on this thread's stack, and all ways were walked on that.
        let place = unsafe { self.paths.find(at) }?;
        let path = self.paths.path(place);
        let older = path.older as usize;
        let to = path.to(at);
        let known = self.states.get(older.checked_sub(1)?)?;
        let (hash, len) = (path.hash, usize::from(known.kept) + usize::from(path.kept));
        let is_same = older <= self.states_len
            && known.is_at(to)
            && known.hash == path.before
            && len <= FRAMES
            && self.changed(older).is_none();
        if !is_same {
            return self.by_path_on_others(place, to, own);
        }
        (self.by_path, self.by_system) = (place + 1, false);
        Some(Taken {
            hash,
            len,
            truncated: false,
        })
    }

    /// The same where the older frames, from `to` on, are others than the way had.
    #[inline(never)]
    fn by_path_on_others(&mut self, place: usize, to: Place, own: &Span) -> Option<Taken> {
        let Place { pc, sp, bp } = to;
        let walked = self.walk(Registers { pc, sp, bp });
        let Joined { keep, len } = walked.ok()?;
        // A rule that was learnt meanwhile may have told of modules that are gone.
        if self.generation != modules::generation() {
            return None;
        }
        self.join(keep, len, own);
        self.whole |= keep == 0;
        (self.lasting, self.by_system) = (true, false);
        let older = self.newest();
        let frames = self.paths.frames(place);
        let len = usize::from(older.kept) + frames.len();
        if !self.whole || len > FRAMES {
            return None;
        }
        let hash = frames
            .iter()
            .rev()
            .fold(older.hash, |hash, pc| chain(hash, *pc));
        self.paths
            .rebase(place, self.states_len, older.at, older.hash, hash);
        self.by_path = place + 1;
        Some(Taken {
            hash,
            len,
            truncated: false,
        })
    }

    /// Remembers the way from the newest frame to the one that was known, which has just been walked.
    #[inline]
    pub(super) fn remember_path(&mut self, keep: usize, len: usize, own: &Span) {
        if keep != 0 && self.whole && (paths::SHORTEST..=paths::LONGEST).contains(&len) {
            self.add_path(keep, len, own);
        }
    }

    #[inline(never)]
    fn add_path(&mut self, keep: usize, len: usize, own: &Span) {
        let (mut count, mut bp_slot) = (0, 0);
        let (mut frames, mut kept) = ([0; paths::LONGEST], 0);
        let fresh = self.fresh.get(..len).unwrap_or_default();
        let known = keep.checked_sub(1).and_then(|known| self.states.get(known));
        let (Some(known), Some(newest)) = (known, fresh.first()) else {
            return;
        };
        let mut older = *known;
        for frame in fresh.iter().rev() {
            older.words_from(frame, |word| {
                if let Some(place) = self.way.get_mut(count) {
                    *place = word;
                    count += 1;
                }
            });
            if bp_slot == 0 {
                bp_slot = frame.bp_slot;
            }
            older = older.newer(frame, true);
        }
        for frame in fresh {
            if !own.contains(frame.at.pc.wrapping_sub(1))
                && let Some(place) = frames.get_mut(kept)
            {
                *place = frame.at.pc;
                kept += 1;
            }
        }
        self.paths.add(&Walked {
            from: newest.at,
            by_bp: older.by_bp,
            words: self.way.get(..count).unwrap_or_default(),
            frames: frames.get(..kept).unwrap_or_default(),
            older: keep,
            to: known.at,
            bp_slot,
            before: known.hash,
            hash: self.newest().hash,
        });
    }
}
