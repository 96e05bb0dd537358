//! Writes the capture's file: the data in the queue, and a copy of the ring and its head, at most 50 ms old. It may
//! wait for a disk as long as necessary, because no thread waits for it.
//!
//! ```text
//! file │ head │ pages … │  (room for the next pages)  │ journal │
//! ```
//! The **journal** is an image of the ring, at a distance after the pages. It is read only if process and ring are both
//! gone. Before the next page would reach it, it is written again, further back. A closed capture has no journal.

use std::io;
use std::sync::atomic::Ordering;
use std::time::Duration;

use gpumem_sys::wait;

use super::error::{Ended, Trouble};
use super::file::CaptureFile;
use super::shared::{Phase, Writer};
use super::store_state::State;
use crate::index;
use crate::layout::{self, dynamic};
use crate::slot::SLOT_BYTES;

/// How long it sleeps without being woken: the drain wakes it at most 50 ms after there is something to write. Also the
/// time until the next attempt after a failed write.
const SLEEP: Duration = Duration::from_secs(1);
/// Room for pages before the journal.
const ROOM: u64 = 1 << 20;
/// The part of the head that changes.
const HEAD: std::ops::Range<u64> = layout::DYNAMIC_OFFSET..layout::RING_OFFSET;

impl Writer {
    /// Writes the capture's file until [`Writer::stop_drain`] or [`Writer::close`] is called and everything is written,
    /// or cannot be. Call it from a dedicated thread; [`Writer::run_drain`] must run in another one. Without a file,
    /// for a capture that holds its ring, and in a forked child, it returns at once.
    pub fn run_store(&self, tell: &dyn Fn(Trouble<'_>)) {
        let Ok(file) = self.file() else { return };
        if self.is_direct {
            return;
        }
        let mut storing = self
            .storing
            .lock()
            .unwrap_or_else(|poisoned| poisoned.into_inner());
        let state = storing.get_or_insert_with(|| {
            let start = self.header.pages_offset();
            State {
                pages_end: self.first_page(),
                next: 0,
                journal: match self.header.bounded {
                    Some(bounded) => bounded.end(start),
                    None => start + ROOM,
                },
                known: 0,
                head: Vec::new(),
                failures: 0,
                first_failure: 0,
                failing: false,
            }
        });
        while self.owner.is_this_process() {
            let mark = self.stored.work.load(Ordering::Acquire);
            let phase = self.phase();
            let is_flushed = self.is_flushed(phase);
            let is_over = is_flushed && phase != Phase::Run;
            let written = self
                .stored
                .writing(|| self.write_and_mend(state, file, is_over, tell));
            if is_over || written.is_err() {
                self.look_whether_deleted();
            }
            self.stored.known.store(state.known, Ordering::Release);
            match &written {
                Err(error) => {
                    state.failing = true;
                    state.failures += 1;
                    if state.failures == 1 {
                        state.first_failure = self.now().0;
                        tell(Trouble::Write(error));
                    }
                    self.note_error(Some(error), state.failures, state.first_failure);
                }
                Ok(()) if state.failing => {
                    state.failing = false;
                    self.note_error(None, state.failures, state.first_failure);
                    continue;
                }
                Ok(()) => {}
            }
            if self.ended() == Some(Ended::MemoryGone) {
                self.stored.done.store(u32::MAX, Ordering::Release);
                wait::wake(&self.stored.done);
                return;
            }
            if is_over && phase == Phase::Close && written.is_ok() && self.queue.is_empty() {
                // A failure to truncate or remove is harmless.
                let _ = self.stored.writing(|| self.tidy(state, file));
            }
            if is_over {
                self.stored.done.store(phase as u32 + 1, Ordering::Release);
                wait::wake(&self.stored.done);
                if phase != Phase::Pause {
                    return;
                }
            }
            let has_failed = written.is_err() && !is_over;
            self.wait(mark, (phase, is_flushed), has_failed);
        }
    }

    /// Sleeps until there is something to write after `mark`, or another phase, or the drain has done its part of this
    /// one; after a failure, until the next attempt is due.
    fn wait(&self, mut mark: u32, (phase, is_flushed): (Phase, bool), has_failed: bool) {
        let mut waited = Duration::ZERO;
        while waited < SLEEP && self.phase() == phase && self.is_flushed(phase) == is_flushed {
            waited += wait::sleep(&self.stored.work, mark, SLEEP - waited);
            let now = self.stored.work.load(Ordering::Acquire);
            if now != mark && !has_failed {
                return;
            }
            mark = now;
        }
    }

    /// Writes everything, and what the file lacks because another program has truncated it meanwhile. At the end, also
    /// what it lacks because it was overwritten.
    fn write_and_mend(
        &self,
        state: &mut State,
        file: &CaptureFile,
        is_last: bool,
        tell: &dyn Fn(Trouble<'_>),
    ) -> io::Result<()> {
        self.write_all(state, file)?;
        let is_overwritten = is_last && file.mend_start()?;
        let Some(cut) = file.take_cut()?.or(is_overwritten.then_some(0)) else {
            return Ok(());
        };
        let start = self.header.pages_offset();
        let end = match self.header.bounded {
            Some(bounded) => bounded.end(start),
            None => state.pages_end,
        };
        let lost = end.saturating_sub(cut.max(start));
        if lost > 0 {
            self.stored.is_cut.store(true, Ordering::Relaxed);
            tell(Trouble::Cut(lost));
        }
        // The journal is gone, too.
        state.head.clear();
        state.known = state.next;
        self.write_all(state, file)
    }

    /// Writes everything, in an order in which the file is always consistent.
    fn write_all(&self, state: &mut State, file: &CaptureFile) -> io::Result<()> {
        let checks = self.ring.checks();
        let mut journal = Vec::new();
        loop {
            while let Some((op, bytes)) = self.queue.front(&self.memory) {
                let end = op.offset + u64::from(op.bytes);
                if self.header.bounded.is_none() && end > state.journal {
                    self.move_journal(state, file, end)?;
                }
                let lost = match &bytes {
                    Some(bytes) => file.write_at(bytes, op.offset).map(|()| false)?,
                    // If the memory is gone, everything is lost; otherwise the reader reports this as missing.
                    None if self.was_read_from_memory() => true,
                    None => return Ok(()),
                };
                (state.pages_end, state.next) = (op.pages_end, op.next);
                // The next write counts separately.
                self.stored.writes.fetch_add(2, Ordering::Relaxed);
                let done = &self.head.queue.0;
                self.queue.pop(&self.memory, done, checks);
                if lost {
                    let why = "what was to be written was damaged in memory";
                    return Err(io::Error::new(io::ErrorKind::InvalidData, why));
                }
            }
            let tail = self.ring.tail();
            // What has left the ring since the queue was empty is in the queue, and in the file only after this.
            if tail > state.known.max(state.next) && !self.queue.is_empty() {
                continue;
            }
            let from = state.known.max(tail);
            let known = self.known.load(Ordering::Acquire);
            if self.ended() == Some(Ended::MemoryGone) {
                return Ok(());
            }
            if known <= from {
                state.known = state.known.max(state.next);
                break;
            }
            journal.clear();
            self.ring.copy_slots(from..known, &mut journal);
            // Records that have left the ring meanwhile are in the queue and could not be copied any more.
            if !self.was_read_from_memory() {
                return Ok(());
            }
            if self.ring.tail() <= from {
                self.write_journal(state, file, from, &journal)?;
                state.known = known;
                break;
            }
        }
        self.write_head(state, file)
    }

    /// Writes slots from `from` on into the journal, which is as long as the ring and wraps around like it.
    fn write_journal(
        &self,
        state: &State,
        file: &CaptureFile,
        from: u64,
        slots: &[u8],
    ) -> io::Result<()> {
        let capacity = self.ring.capacity();
        let first = from & (capacity - 1);
        let until_end = ((capacity - first) as usize * SLOT_BYTES).min(slots.len());
        let (before, after) = slots.split_at(until_end);
        file.write_at(before, state.journal + first * SLOT_BYTES as u64)?;
        match after {
            [] => Ok(()),
            _ => file.write_at(after, state.journal),
        }
    }

    /// Writes the journal again, after the data that will be written up to `end`.
    fn move_journal(&self, state: &mut State, file: &CaptureFile, end: u64) -> io::Result<()> {
        let mut image = vec![0; self.ring.capacity() as usize * SLOT_BYTES];
        file.read_at(&mut image, state.journal)?;
        let behind = (end + ROOM).next_multiple_of(4096);
        file.write_at(&image, behind)?;
        state.journal = behind;
        self.write_head(state, file)
    }

    /// Writes the head, if it has changed.
    fn write_head(&self, state: &mut State, file: &CaptureFile) -> io::Result<()> {
        let mut head = {
            let _alone = self
                .publishing
                .lock()
                .unwrap_or_else(|poisoned| poisoned.into_inner());
            self.head.image()
        };
        if !self.was_read_from_memory() {
            return Ok(());
        }
        let (checks, nonce) = (self.ring.checks(), self.nonce());
        let mut put = |place: u64, words: &[u64]| {
            for (place, word) in (place - HEAD.start..).step_by(8).zip(words) {
                if let Some(to) = head.get_mut(place as usize..place as usize + 8) {
                    to.copy_from_slice(&word.to_le_bytes());
                }
            }
        };
        put(dynamic::KNOWN, &[index::seal(state.known, nonce)]);
        put(dynamic::TAIL, &[index::seal(state.next, nonce)]);
        put(dynamic::PAGES_END, &[index::seal(state.pages_end, nonce)]);
        put(dynamic::QUEUE, &[0; 4]);
        // A new time alone is not written.
        let changed = state.head != head;
        if changed {
            let facts = [self.stamp(), state.journal, 0];
            let [time, journal, zero] = facts;
            let check = checks.words(dynamic::JOURNAL, &facts);
            let mut image = head.clone();
            let at = (dynamic::JOURNAL - HEAD.start) as usize;
            for (to, word) in image[at..at + 32]
                .chunks_exact_mut(8)
                .zip([time, journal, zero, check])
            {
                to.copy_from_slice(&word.to_le_bytes());
            }
            file.write_at(&image, HEAD.start)?;
            state.head = head;
        }
        Ok(())
    }

    /// Removes the ring's data from the capture and the ring: the capture is closed.
    fn tidy(&self, state: &mut State, file: &CaptureFile) -> io::Result<()> {
        if state.known != state.next {
            return Ok(());
        }
        // All records of the journal are also in pages.
        let start = self.header.pages_offset();
        let end = self
            .header
            .bounded
            .map_or(state.pages_end, |bounded| bounded.end(start));
        let facts = [self.stamp(), 0, 1];
        let mut bytes = Vec::with_capacity(32);
        let check = self.ring.checks().words(dynamic::JOURNAL, &facts);
        for word in facts.iter().chain([&check]) {
            bytes.extend_from_slice(&word.to_le_bytes());
        }
        file.write_at(&bytes, dynamic::JOURNAL)?;
        file.cut_to(end)?;
        self.ring_path().map_or(Ok(()), std::fs::remove_file)
    }

    /// The offset of the first page.
    pub(super) fn first_page(&self) -> u64 {
        let start = self.header.pages_offset();
        self.header
            .bounded
            .map_or(start, |bounded| bounded.log_offset(start))
    }

    /// Whether the capture was deleted during recording, as seen by the thread that writes it.
    pub fn is_deleted(&self) -> bool {
        self.stored.is_deleted.load(Ordering::Relaxed)
    }

    /// Whether another program has cut off some of the capture's pages.
    pub fn is_cut(&self) -> bool {
        self.stored.is_cut.load(Ordering::Relaxed)
    }

    /// Only the thread that writes the file can check this, because the descriptor is in its table.
    pub(super) fn look_whether_deleted(&self) {
        let is_deleted = self.file().is_ok_and(CaptureFile::is_deleted);
        self.stored.is_deleted.store(is_deleted, Ordering::Relaxed);
    }

    /// Waits until the file has all records that are reserved at the call, at most `limit`. For a ring in the capture,
    /// it returns at once.
    pub fn await_written(&self, limit: Duration) -> bool {
        let wanted = self.ring.head();
        let mut waited = Duration::ZERO;
        while !self.is_direct && self.stored.known.load(Ordering::Acquire) < wanted {
            if waited >= limit {
                return false;
            }
            self.backpressure.wake_drain();
            self.stored.wake();
            wait::nap(Duration::from_millis(2));
            waited += Duration::from_millis(2);
        }
        true
    }

    /// Waits until everything is written for a phase; false if it was not within `limit`.
    pub(super) fn await_stored(&self, phase: Phase, limit: Duration) -> bool {
        let mut waited = Duration::ZERO;
        while self.is_direct && !self.is_flushed(phase) {
            if waited >= limit {
                return false;
            }
            wait::nap(Duration::from_millis(1));
            waited += Duration::from_millis(1);
        }
        while !self.is_direct && !self.stored.is_done(phase) {
            if waited >= limit {
                return false;
            }
            let done = self.stored.done.load(Ordering::Acquire);
            if done > phase as u32 {
                break;
            }
            let slice = Duration::from_millis(10).min(limit - waited);
            waited += wait::sleep(&self.stored.done, done, slice);
        }
        true
    }
}
