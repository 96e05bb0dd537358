//! Ends a capture, or has its threads stand still.

use std::time::Duration;

use super::shared::{Phase, Writer};
use crate::ring::Scan;
use crate::{Nanos, layout};

/// At a clean exit, how often it is looked for what threads are about to commit: some 50 µs, without sleep.
/// Who runs commits within one of them. Who does not run would be waited for in vain, or come out of its
/// call into a program that is no longer there.
const FINISH_LOOKS: u32 = 1_000;

impl Writer {
    /// Has the threads write all there is, and then stay where they are until [`Writer::close`]; waits for that, no
    /// longer than `limit`. False: it was not done by then.
    pub fn pause(&self, limit: Duration) -> bool {
        self.enter(Phase::Pause);
        self.await_stored(Phase::Pause, limit)
    }

    /// Has the threads write all there is, leave nothing of the ring, and return; waits for that, no longer than
    /// `limit`. False: it was not done by then. Records that come later are lost.
    pub fn close(&self, limit: Duration) -> bool {
        self.owner.end();
        self.enter(Phase::Close);
        self.await_stored(Phase::Close, limit)
    }

    /// Makes [`Writer::drain`] return once it has moved what is committed. For tests, and for
    /// programs that record themselves.
    pub fn stop_drain(&self) {
        self.enter(Phase::Stop);
    }

    /// The same, and leaves nothing of the ring.
    pub fn close_drain(&self) {
        self.enter(Phase::Close);
    }

    /// Marks a clean exit at this moment. Events may still follow, and nothing is torn down.
    ///
    /// Threads that are about to commit get a moment to do so, and it is told up to where all was committed: a
    /// record that they never finish would look like one that was lost.
    pub fn finish(&self) {
        self.finish_at(self.now());
    }

    /// The same at another moment: of records that this process did not make.
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

    /// Waits, not for long, until what is reserved by now is committed; returns the first record that is
    /// not.
    fn await_committed(&self) -> u64 {
        let head = self.ring.head();
        let mut seq = self.ring.tail();
        for _ in 0..FINISH_LOOKS {
            loop {
                // The drain may take what we look at.
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
