//! Moves committed records out of the ring.

use std::sync::atomic::Ordering;

use super::Writer;

impl Writer {
    /// Runs the drain on the calling thread, until [`Writer::stop_drain`].
    pub fn drain(&self) {
        let _only = self
            .draining
            .lock()
            .unwrap_or_else(|poisoned| poisoned.into_inner());
        while !self.stopping.load(Ordering::Acquire) {
            let mark = self.space.work_mark();
            self.space.sleep(mark);
        }
    }

    /// Makes [`Writer::drain`] return.
    pub fn stop_drain(&self) {
        self.stopping.store(true, Ordering::Release);
        self.space.wake_drain();
    }
}
