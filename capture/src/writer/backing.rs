//! Memory for the ring, step by step in its first lap: most programs use little of it, and 4 MiB take 3 ms.

use std::sync::atomic::Ordering;

use gpumem_sys::threads;

use super::error::Ended;
use super::rows::LONGEST_HOLD;
use super::shared::Writer;

impl Writer {
    /// Called by the drain each time that it wakes.
    pub(super) fn back_ahead(&self) {
        if self
            .ring
            .backed()
            .is_some_and(|backed| self.ring.head() > backed / 2)
        {
            self.back_more();
        }
    }

    /// Takes memory for twice as many slots. Where the ring's file system has no more, the other slots are memory of this
    /// process, and the ring is removed: readers then use what the file has, at most 50 ms less. Without memory at all,
    /// recording ends.
    #[cold]
    pub(super) fn back_more(&self) {
        let before = self.ring.backed();
        // Held for the time of some hundred page faults.
        let Some(_alone) = self.backing.lock(threads::own(), LONGEST_HOLD) else {
            self.abandon(Ended::HeldTooLong);
            return;
        };
        let Some(backed) = self.ring.backed().filter(|backed| before == Some(*backed)) else {
            return; // another thread has done it
        };
        let mut upto = (2 * backed).min(self.ring.capacity());
        if self.memory.back_slots(backed..upto).is_err() {
            if self.memory.make_slots_private(backed).is_err() {
                self.abandon(match self.memory.is_cut() {
                    true => Ended::MemoryGone,
                    false => Ended::NoMemory,
                });
                return;
            }
            upto = self.ring.capacity();
        }
        self.ring.back(upto);
        self.backpressure.wake_waiting();
    }

    /// Whether there was no memory for the whole ring or its queue where it is, so that a kill loses up to 50 ms of events.
    pub fn is_partly_private(&self) -> bool {
        self.memory.is_partly_private.load(Ordering::Acquire)
    }
}
