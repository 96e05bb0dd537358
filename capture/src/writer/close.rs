//! Ends or pauses a capture.

use std::time::Duration;

use super::shared::{Phase, Writer};
use crate::ring::Scan;
use crate::{Nanos, layout};

/// The number of checks for records that threads are about to commit, at a clean exit: about 50 µs, without sleep.
/// Running threads commit within that time. A thread that is not running would delay the exit for nothing, or would
/// return from its call into a program that no longer exists.
const FINISH_LOOKS: u32 = 1_000;

impl Writer {
    /// Makes the threads write everything and then wait until [`Writer::close`]; waits for that, at most `limit`.
    /// False if it was not done by then.
    pub fn pause(&self, limit: Duration) -> bool {
        self.enter(Phase::Pause);
        self.await_stored(Phase::Pause, limit)
    }

    /// Makes the threads write everything, remove the ring, and return; waits for that, at most `limit`. False if
    /// it was not done by then. Later records are lost.
    pub fn close(&self, limit: Duration) -> bool {
        self.owner.end();
        self.enter(Phase::Close);
        self.await_stored(Phase::Close, limit)
    }

    /// Makes [`Writer::drain`] return once it has moved all committed records. For tests, and for programs that
    /// record themselves.
    pub fn stop_drain(&self) {
        self.enter(Phase::Stop);
    }

    /// The same, and removes the ring.
    pub fn close_drain(&self) {
        self.enter(Phase::Close);
    }

    /// Marks a clean exit at this time. Events may still follow, and nothing is shut down.
    ///
    /// Threads that are about to commit get a short time to do so, and the end of the committed records is stored.
    /// Without it, a record that is never finished would look like a lost one.
    pub fn finish(&self) {
        self.finish_at(self.now());
    }

    /// The same at another time, for records that this process did not create.
    pub fn finish_at(&self, time: Nanos) {
        if self.is_of_this_process() {
            let committed = self.await_committed();
            if let Ok((seq, rows)) = self.counters_now() {
                let publishing = self.publishing.lock();
                let mut newest = publishing.unwrap_or_else(|poisoned| poisoned.into_inner());
                self.publish_counters(&mut newest, seq, &rows);
                self.head.known.0.store(committed, self.nonce());
            }
            let facts = [1, time.0, committed];
            self.head
                .end
                .0
                .store(self.ring.checks(), layout::dynamic::END, facts);
        }
    }

    /// Waits briefly until all records that are reserved now are committed; returns the first one that is not.
    fn await_committed(&self) -> u64 {
        let head = self.ring.head();
        let mut seq = self.ring.tail();
        for _ in 0..FINISH_LOOKS {
            loop {
                // The drain may take the record that is checked.
                seq = seq.max(self.ring.tail());
                if seq >= head {
                    return head;
                }
                match self.ring.scan(seq) {
                    Scan::Record(count, _) => seq += count,
                    Scan::Pending | Scan::Damaged => break,
                }
            }
            std::hint::spin_loop();
        }
        seq
    }
}
