//! Moves committed records out of the ring into pages.
//!
//! A page is stored where it outlives this process (in the capture's file, or in the queue for it), then published (the
//! end of pages moves), and only then do its records leave the ring. Whenever the process dies, each record is in a
//! published page, or still in the ring, or in both.

use std::io;
use std::sync::atomic::Ordering;
use std::time::Duration;

use gpumem_sys::clock::Instant;

use super::bounded::{Log, StateSink};
use super::drain_state::State;
use super::error::{Ended, Trouble};
use super::shared::{Phase, Writer};
use crate::reader::{Record, definition};
use crate::ring::Scan;
use crate::{DefKind, EventKind, Seq, layout, page, slot};

/// The number of waiting slots that make a page, or a quarter of the ring if that is less.
const WORTH_A_PAGE: u64 = 16_384;
/// Records that wait longer than this become a page regardless of their number.
const AT_LEAST_EVERY: Duration = Duration::from_secs(1);
/// Time until the next attempt after a failed write.
const RETRY_AFTER: Duration = Duration::from_secs(1);
/// After this many checks, 50 ms apart or more, that find the same record unfinished, its thread counts as stopped or
/// killed.
const LOOKS_AT_UNFINISHED: u32 = 100;

impl Writer {
    /// Runs the drain, and the thread that writes the file: moves committed records from the ring into compressed pages
    /// of the file. Call it from a dedicated thread with its signals blocked. Returns when [`Writer::stop_drain`] is
    /// called, after all committed records were moved; at once in a forked child.
    ///
    /// It takes no lock that the recorded program could hold, except its allocator's. If it cannot write, it records
    /// that in the head, keeps the records in the ring, and tries again each second.
    ///
    /// A bounded capture has a different drain: [`Writer::drain_bounded`].
    pub fn drain(&self) {
        self.drain_and_store(None, &|_| {});
    }

    /// The same, and calls `tell` the first time that it cannot write.
    pub fn drain_telling(&self, tell: &(dyn Fn(Trouble<'_>) + Sync)) {
        self.drain_and_store(None, tell);
    }

    /// [`Writer::drain`] for a bounded capture: `sink` gets every record and keeps the state that replaces overwritten
    /// pages. The file's size never changes.
    pub fn drain_bounded(&self, sink: &mut dyn StateSink) {
        self.drain_and_store(Some(sink), &|_| {});
    }

    fn drain_and_store(
        &self,
        sink: Option<&mut dyn StateSink>,
        tell: &(dyn Fn(Trouble<'_>) + Sync),
    ) {
        if self.is_direct {
            return self.run_drain(sink, tell, &|| {});
        }
        std::thread::scope(|scope| {
            scope.spawn(|| self.run_store(tell));
            self.run_drain(sink, tell, &|| {});
        });
    }

    /// The drain alone. [`Writer::run_store`] must run in another thread, except for a capture that holds its ring.
    /// Pass a sink only for a bounded capture. `tick` is called each time that the drain wakes, and for
    /// each page.
    pub fn run_drain(
        &self,
        mut sink: Option<&mut dyn StateSink>,
        tell: &dyn Fn(Trouble<'_>),
        tick: &dyn Fn(),
    ) {
        let mut state = self
            .draining
            .lock()
            .unwrap_or_else(|poisoned| poisoned.into_inner());
        let state = state.get_or_insert_with(|| {
            // Prevents a page fault every 64 events in the ring's first lap. Slots that get memory later are touched then.
            self.ring.touch();
            Box::new(State {
                log: self
                    .header
                    .bounded
                    .map(|bounded| Log::new(bounded, self.header.pages_offset())),
                pages_end: self.first_page(),
                ..State::default()
            })
        });
        let bounded = self.header.bounded;
        let most = bounded.map_or(page::SLOTS, |bounded| bounded.page_slots());
        let worth_a_page = WORTH_A_PAGE.min(self.ring.capacity() / 4).min(most);
        let mut last = Instant::now();
        let mut turn = last;
        while self.owner.is_this_process() {
            // Also while there is always a page to move: a drain that rarely gets a processor never sleeps.
            state.write.passed(turn.elapsed());
            turn = Instant::now();
            if state.write.is_stuck(self.stored.write_in_progress()) {
                tell(Trouble::Stuck);
            }
            // The mark is taken before looking, so no wake-up between the two is missed.
            let mark = self.backpressure.work_mark();
            let phase = self.phase();
            let stopping = phase != Phase::Run || self.ended().is_some();
            let waiting = self.ring.head().saturating_sub(self.ring.tail());
            let since = last.elapsed();
            let is_due = match state.failing {
                true => stopping || since >= RETRY_AFTER,
                false => stopping || waiting >= worth_a_page || since >= AT_LEAST_EVERY,
            };
            // Once everything was written, other libraries are being shut down: only records that would find no room
            // are moved.
            let stands_still = phase == Phase::Pause
                && self.is_flushed(phase)
                && waiting < self.ring.capacity() / 2;
            if waiting > 0 && is_due && !stands_still && self.ended() != Some(Ended::MemoryGone) {
                last = Instant::now();
                match self.move_page(state, &mut sink, most) {
                    Ok(moved) => {
                        self.note_success(state);
                        if moved {
                            tick();
                            continue;
                        }
                    }
                    // If the memory is gone, that is reported instead.
                    Err(_) if !self.is_direct && !self.has_its_memory() => {}
                    Err(_) if !self.is_direct && self.memory.is_cut() => {
                        self.abandon(Ended::MemoryGone);
                    }
                    Err(error) => {
                        self.note_failure(state, &error);
                        if state.failures == 1 {
                            tell(match self.is_direct {
                                true => Trouble::Write(&error),
                                false => Trouble::Full(&error),
                            });
                        }
                    }
                }
            }
            tick();
            self.back_ahead();
            self.look(state);
            if stopping {
                // The earlier counters may only now be of known records: publish those of this position.
                self.look(state);
            }
            if self.ended() == Some(Ended::MemoryGone) {
                self.flushed.store(u32::MAX, Ordering::Release);
                self.stored.wake();
                return;
            }
            if stopping {
                if self.is_direct {
                    self.look_whether_deleted();
                }
                if self.is_direct && phase == Phase::Close && !state.failing {
                    self.punch_ring();
                }
                self.flushed(phase);
                match phase {
                    Phase::Pause | Phase::Run => {}
                    Phase::Stop | Phase::Close => return,
                }
            }
            self.backpressure.sleep(mark);
        }
    }

    /// Whether the ring's memory still exists. Reading it finds out.
    fn has_its_memory(&self) -> bool {
        self.ring.touch();
        self.was_read_from_memory()
    }

    /// Finds the end of the committed records, and publishes it and the counters.
    fn look(&self, state: &mut State) {
        let before = state.known;
        state.known = self.ring.committed(before);
        if state.known == before && self.ring.head() > before {
            state.looks += 1;
            if state.looks > LOOKS_AT_UNFINISHED && self.ring.tail() == before {
                // It will never be finished. The reader reports it as missing.
                self.pass_over(before);
                state.known = self.ring.tail();
            }
        } else {
            state.looks = 0;
        }
        self.known.store(state.known, Ordering::Release);
        if state.known != before {
            self.stored.wake();
        }
        let mut newest = self
            .publishing
            .lock()
            .unwrap_or_else(|poisoned| poisoned.into_inner());
        self.head.known.0.store(state.known, self.nonce());
        let head = self.ring.head();
        if state.counted.is_none() && state.published != Some(head) {
            state.counted = self.counters_now().ok();
        }
        if let Some((seq, rows)) = state.counted.take_if(|(seq, _)| *seq <= state.known) {
            self.publish_counters(&mut newest, seq, &rows);
            state.published = Some(seq);
        }
    }

    /// Frees the file blocks of a ring in the capture that is no longer needed. Where the file system does not support
    /// that, they stay.
    fn punch_ring(&self) {
        let (start, end) = (
            layout::RING_OFFSET,
            layout::ring_end(self.header.ring_slots),
        );
        if let Ok(file) = self.file()
            && self.ring.head() == self.ring.tail()
        {
            let _ = file.punch(start..end);
        }
    }

    fn pass_over(&self, seq: u64) {
        self.ring.release(seq + 1);
        self.head.drained.0.tail.store(seq + 1, self.nonce());
        self.backpressure.made_room();
    }

    /// Writes one page of committed records. False if there were none.
    fn move_page(
        &self,
        state: &mut State,
        sink: &mut Option<&mut dyn StateSink>,
        most: u64,
    ) -> io::Result<bool> {
        let mut bounded = match (&mut state.log, sink.as_deref_mut()) {
            (None, None) => None,
            (Some(log), Some(sink)) => Some((log, sink)),
            // The wrong drain for this capture.
            (None, Some(_)) | (Some(_), None) => {
                return Err(io::Error::from_raw_os_error(libc::EINVAL));
            }
        };
        let builder = match &mut state.builder {
            Some(builder) => builder,
            none => none.insert(page::Builder::new(self.nonce())),
        };
        let first = self.ring.tail();
        builder.start(first);
        let head = self.ring.head();
        while builder.next() < head {
            let seq = builder.next();
            let Scan::Record(count, words) = self.ring.scan(seq) else {
                break;
            };
            if !builder.is_empty() && seq + count - first > most {
                break;
            }
            let kind = slot::kind_of(&words);
            if EventKind(kind).is_event() {
                let event = slot::event_from_words(&words);
                builder.event(&event);
                if let Some((log, sink)) = &mut bounded {
                    log.take(*sink, Record::Event(Seq(seq), &event), count);
                }
            } else {
                state.payload.clear();
                self.ring.copy_payload(seq, &words, &mut state.payload);
                builder.definition(DefKind(kind), &state.payload);
                if let Some((log, sink)) = &mut bounded {
                    let (definition, _) = definition(DefKind(kind), &state.payload);
                    log.take(*sink, Record::Definition(Seq(seq), &definition), count);
                }
            }
        }
        if builder.is_empty() {
            // A stray store has hit the ring. Skip the slot: the reader reports it as missing between two pages.
            let is_damaged = first < head && self.ring.scan(first) == Scan::Damaged;
            if is_damaged {
                self.pass_over(first);
            }
            return Ok(is_damaged);
        }
        let next = builder.next();
        let page = builder.finish();
        let length = page.len() as u64;
        let start = match &mut bounded {
            None => state.pages_end,
            Some((log, sink)) => {
                log.room(length, |log| self.write_state(log, *sink, state.pages_end))?
            }
        };
        if !self.was_read_from_memory() {
            return Ok(false);
        }
        self.put(&[page], start, start + length, next)?;
        state.pages_end = start + length;
        let drained = &self.head.drained.0;
        drained.pages_end.store(state.pages_end, self.nonce());
        self.ring.release(next);
        drained.tail.store(next, self.nonce());
        self.backpressure.made_room();
        if let Some((log, sink)) = &mut bounded {
            log.wrote(start, length, next);
            if log.is_due() {
                self.write_state(log, *sink, state.pages_end)?;
            }
        }
        Ok(true)
    }

    /// Stores bytes where they outlive this process. After that, pages end at `pages_end` and hold the records before
    /// `next`.
    pub(super) fn put(
        &self,
        parts: &[&[u8]],
        offset: u64,
        pages_end: u64,
        next: u64,
    ) -> io::Result<()> {
        if !self.is_direct {
            let place = (offset, pages_end, next);
            self.queue
                .push(&self.memory, self.ring.checks(), parts, place)?;
            self.stored.wake();
            return Ok(());
        }
        let file = self.file()?;
        self.backpressure.set_writing(true);
        let mut at = offset;
        let written = parts.iter().try_for_each(|part| {
            file.write_at(part, at)?;
            at += part.len() as u64;
            Ok(())
        });
        self.backpressure.set_writing(false);
        written
    }

    fn note_failure(&self, state: &mut State, error: &io::Error) {
        state.failing = true;
        state.failures += 1;
        if state.failures == 1 {
            state.first_failure = self.now().0;
        }
        self.note_error(Some(error), state.failures, state.first_failure);
        self.backpressure.give_up();
    }

    fn note_success(&self, state: &mut State) {
        if std::mem::take(&mut state.failing) {
            self.note_error(None, state.failures, state.first_failure);
        }
    }

    /// Records in the head why nothing can be written now, if so.
    pub(super) fn note_error(&self, error: Option<&io::Error>, failures: u64, first: u64) {
        let errno = |error: &io::Error| error.raw_os_error().unwrap_or(libc::EIO) as u64;
        let facts = [error.map_or(0, errno), failures, first];
        let (checks, place) = (self.ring.checks(), layout::dynamic::DRAIN_ERROR);
        let publishing = self.publishing.lock();
        let _alone = publishing.unwrap_or_else(|poisoned| poisoned.into_inner());
        self.head.drain_error.0.store(checks, place, facts);
    }
}
