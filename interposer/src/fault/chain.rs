//! The host's disposition of SIGBUS, kept so that a signal handler can read it at any time.
//!
//! One writer at a time fills a slot that is not the newest and then publishes it. Readers copy the newest slot and
//! check that it still is the newest. So a reader never waits, and a slot that was half written at a fork is never
//! read.

use core::sync::atomic::{AtomicU64, Ordering, fence};

use super::action::Action;

/// The number of slots: a reader copies again only if as many dispositions were set while it copied.
const PLACES: u64 = 8;
/// Set in the published word once `SA_RESETHAND` has taken effect.
const RESET: u64 = 1;
/// The position of the publication count in the word.
const COUNT: u32 = 1;

/// The newest disposition.
pub(super) struct Chain {
    /// The number of publications, and [`RESET`].
    newest: AtomicU64,
    places: [[AtomicU64; 4]; PLACES as usize],
}

/// A disposition, and the published word that it was read under.
#[derive(Clone, Copy)]
pub(super) struct Found {
    pub(super) action: Action,
    word: u64,
}

impl Chain {
    /// The default disposition.
    pub(super) const fn new() -> Self {
        Self {
            newest: AtomicU64::new(0),
            places: [const { [const { AtomicU64::new(0) }; 4] }; PLACES as usize],
        }
    }

    fn place(&self, word: u64) -> &[AtomicU64; 4] {
        let index = (word >> COUNT) % PLACES;
        let [first, ..] = &self.places;
        self.places.get(index as usize).unwrap_or(first)
    }

    fn copy(&self, word: u64) -> Action {
        let [handler, flags, mask, restorer] = self.place(word);
        let handler = handler.load(Ordering::Relaxed) as usize;
        Action {
            handler: match word & RESET {
                0 => handler,
                _ => libc::SIG_DFL,
            },
            flags: flags.load(Ordering::Relaxed) as i32,
            mask: mask.load(Ordering::Relaxed),
            restorer: restorer.load(Ordering::Relaxed) as usize,
        }
    }

    /// The newest disposition.
    pub(super) fn load(&self) -> Found {
        loop {
            let word = self.newest.load(Ordering::Acquire);
            let action = self.copy(word);
            fence(Ordering::Acquire);
            if self.newest.load(Ordering::Relaxed) == word {
                return Found { action, word };
            }
        }
    }

    /// Publishes a disposition; returns the previous one. Only one thread may call this at a time.
    pub(super) fn publish(&self, action: &Action) -> Action {
        let next = ((self.newest.load(Ordering::Relaxed) >> COUNT) + 1) << COUNT;
        // No reader may see the new values under the previous word of this slot.
        fence(Ordering::Release);
        let figures = [
            action.handler as u64,
            action.flags as u32 as u64,
            action.mask,
            action.restorer as u64,
        ];
        for (to, from) in self.place(next).iter().zip(figures) {
            to.store(from, Ordering::Relaxed);
        }
        // A handler may have reset the previous one until now.
        let before = self.newest.swap(next, Ordering::AcqRel);
        self.copy(before)
    }

    /// Resets the found handler to the default, as required by `SA_RESETHAND`. False if it is no longer the newest,
    /// or was reset by another thread.
    pub(super) fn reset(&self, found: &Found) -> bool {
        found.word & RESET == 0
            && self
                .newest
                .compare_exchange(
                    found.word,
                    found.word | RESET,
                    Ordering::AcqRel,
                    Ordering::Relaxed,
                )
                .is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numbered(number: u64) -> Action {
        Action {
            handler: number as usize + 2,
            flags: number as i32,
            mask: number,
            restorer: number as usize,
        }
    }

    #[test]
    fn gives_back_the_one_before() {
        let chain = Chain::new();
        assert_eq!(chain.load().action, Action::DEFAULT);
        assert_eq!(chain.publish(&numbered(1)), Action::DEFAULT);
        for number in 1..100 {
            assert_eq!(chain.load().action, numbered(number));
            assert_eq!(chain.publish(&numbered(number + 1)), numbered(number));
        }
    }

    #[test]
    fn is_reset_once_and_keeps_its_flags() {
        let chain = Chain::new();
        chain.publish(&numbered(7));
        let found = chain.load();
        assert!(chain.reset(&found) && !chain.reset(&found));
        let reset = Action {
            handler: libc::SIG_DFL,
            ..numbered(7)
        };
        assert_eq!(chain.load().action, reset);
        assert!(!chain.reset(&chain.load()));
        assert_eq!(chain.publish(&numbered(8)), reset);
        assert!(!chain.reset(&found));
        assert_eq!(chain.load().action, numbered(8));
    }

    #[test]
    fn readers_find_whole_dispositions() {
        let chain = Chain::new();
        chain.publish(&numbered(1));
        std::thread::scope(|scope| {
            let writer = scope.spawn(|| {
                for number in 2..200_000 {
                    chain.publish(&numbered(number));
                }
            });
            while !writer.is_finished() {
                let found = chain.load().action;
                assert_eq!(found, numbered(found.mask));
            }
        });
    }
}
