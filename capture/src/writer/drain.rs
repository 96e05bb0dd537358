//! Moves committed records out of the ring into pages.
//!
//! A page is written, then published (the end of pages moves), and only then do its records leave the
//! ring. Whenever the process dies, each record is in a published page, or still in the ring, or in
//! both.

use std::io;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use super::Writer;
use super::bounded::{Keeper, Log};
use crate::reader::{Record, definition};
use crate::ring::Found;
use crate::{DefKind, EventKind, Seq, index, layout, page, slot};

/// So many waiting slots are worth a page, or a quarter of the ring if that is less.
const WORTH_A_PAGE: u64 = 16_384;
/// What waits longer than this becomes a page however little it is.
const AT_LEAST_EVERY: Duration = Duration::from_secs(1);
/// After a failed write, how long until the next try.
const RETRY_AFTER: Duration = Duration::from_secs(1);

/// What the drain keeps from page to page.
#[derive(Default)]
struct State {
    builder: Option<page::Builder>,
    /// Of a bounded capture: where the drain stands in it.
    log: Option<Log>,
    payload: Vec<u8>,
    failures: u64,
    first_failure: u64,
    failing: bool,
}

impl Writer {
    /// Runs the drain: moves committed records from the ring into compressed pages at the file's end.
    /// Call it from a thread of your own, with its signals blocked. Returns when
    /// [`Writer::stop_drain`] is called, after all committed records were moved; at once in a forked
    /// child.
    ///
    /// It takes no lock that the recorded program could hold, except its allocator's. When it cannot
    /// write it says so in the head, keeps what is in the ring, and tries again each second.
    ///
    /// A bounded capture has a drain of its own: [`Writer::drain_bounded`].
    pub fn drain(&self) {
        self.run(&mut None, &|_| {});
    }

    /// The same, and the first time that it cannot write `tell` is called with the error.
    pub fn drain_telling(&self, tell: &dyn Fn(&io::Error)) {
        self.run(&mut None, tell);
    }

    /// [`Writer::drain`] of a bounded capture: `keeper` is given every record and keeps the state that
    /// stands for those whose pages are gone. The file's size never changes.
    pub fn drain_bounded(&self, keeper: &mut dyn Keeper) {
        self.run(&mut Some(keeper), &|_| {});
    }

    /// The same, and the first time that it cannot write `tell` is called with the error.
    pub fn drain_bounded_telling(&self, keeper: &mut dyn Keeper, tell: &dyn Fn(&io::Error)) {
        self.run(&mut Some(keeper), tell);
    }

    fn run(&self, keeper: &mut Option<&mut dyn Keeper>, tell: &dyn Fn(&io::Error)) {
        let _only = self
            .draining
            .lock()
            .unwrap_or_else(|poisoned| poisoned.into_inner());
        // The ring's first lap should not cost the program a page fault every 64 events.
        self.ring.touch();
        let slots = self.ring.capacity() as u32;
        let most = self.areas.map_or(page::SLOTS, |areas| areas.page_slots());
        let worth_a_page = WORTH_A_PAGE.min(self.ring.capacity() / 4).min(most);
        let mut state = State {
            log: self.areas.map(|areas| Log::new(areas, slots)),
            ..State::default()
        };
        let mut last = Instant::now();
        while self.is_own_process() {
            // The mark is taken before looking, so no wake-up between the two is missed.
            let mark = self.space.work_mark();
            let stopping = self.stopping.load(Ordering::Acquire);
            let waiting = self.ring.head().saturating_sub(self.ring.tail());
            let since = last.elapsed();
            let is_due = match state.failing {
                true => stopping || since >= RETRY_AFTER,
                false => stopping || waiting >= worth_a_page || since >= AT_LEAST_EVERY,
            };
            if waiting > 0 && is_due {
                last = Instant::now();
                match self.move_page(&mut state, keeper, most) {
                    Ok(moved) => {
                        self.note_success(&mut state);
                        if moved {
                            continue;
                        }
                    }
                    Err(error) => {
                        self.note_failure(&mut state, &error);
                        if state.failures == 1 {
                            tell(&error);
                        }
                    }
                }
            }
            if stopping {
                return;
            }
            self.space.sleep(mark);
        }
    }

    /// Makes [`Writer::drain`] return once it has moved what is committed. For tests, and for
    /// programs that record themselves.
    pub fn stop_drain(&self) {
        self.stopping.store(true, Ordering::Release);
        self.space.wake_drain();
    }

    /// Writes one page of what is committed. False: there was nothing.
    fn move_page(
        &self,
        state: &mut State,
        keeper: &mut Option<&mut dyn Keeper>,
        most: u64,
    ) -> io::Result<bool> {
        let mut bounded = match (&mut state.log, keeper.as_deref_mut()) {
            (None, None) => None,
            (Some(log), Some(keeper)) => Some((log, keeper)),
            // The wrong drain for this capture.
            (None, Some(_)) | (Some(_), None) => {
                return Err(io::Error::from_raw_os_error(libc::EINVAL));
            }
        };
        let builder = match &mut state.builder {
            Some(builder) => builder,
            none => none.insert(page::Builder::new(self.nonce())?),
        };
        let first = self.ring.tail();
        builder.start(first);
        let head = self.ring.head();
        while builder.next() < head {
            let seq = builder.next();
            let Found::Record(count, words) = self.ring.find(seq) else {
                break;
            };
            if !builder.is_empty() && seq + count - first > most {
                break;
            }
            let kind = slot::kind_of(&words);
            if EventKind(kind).is_event() {
                let event = slot::event_from_words(&words);
                builder.event(&event);
                if let Some((log, keeper)) = &mut bounded {
                    log.take(*keeper, Record::Event(Seq(seq), &event), count);
                }
            } else {
                state.payload.clear();
                self.ring.copy_payload(seq, &words, &mut state.payload);
                builder.definition(DefKind(kind), &state.payload);
                if let Some((log, keeper)) = &mut bounded {
                    let (definition, _) = definition(DefKind(kind), &state.payload);
                    log.take(*keeper, Record::Definition(Seq(seq), &definition), count);
                }
            }
        }
        if builder.is_empty() {
            // Somebody's stray store hit the ring. Pass over the slot: the reader finds that it is
            // missing between two pages.
            let is_damaged = first < head && self.ring.find(first) == Found::Damaged;
            if is_damaged {
                self.ring.release(first + 1);
                self.space.made_room();
            }
            return Ok(is_damaged);
        }
        let next = builder.next();
        let page = builder.finish()?;
        let drained = &self.head.drained.0;
        let length = page.len() as u64;
        let start = match &mut bounded {
            None => index::value(drained.pages_end.load(Ordering::Relaxed)),
            Some((log, keeper)) => log.room(self, *keeper, length)?,
        };
        self.space.set_writing(true);
        let written = self.file.write_at(page, start);
        self.space.set_writing(false);
        written?;
        let end = index::seal(start + length, self.nonce());
        drained.pages_end.store(end, Ordering::Release);
        self.ring.release(next);
        self.space.made_room();
        if let Some((log, keeper)) = &mut bounded {
            log.wrote(start, length, next);
            if log.is_due() {
                log.write_state(self, *keeper)?;
            }
        }
        Ok(true)
    }

    fn note_failure(&self, state: &mut State, error: &io::Error) {
        if state.failures == 0 {
            state.first_failure = self.now().0;
        }
        state.failures += 1;
        state.failing = true;
        let errno = error.raw_os_error().unwrap_or(libc::EIO) as u64;
        let facts = [errno, state.failures, state.first_failure];
        self.head
            .drain_error
            .0
            .store(self.ring.checks(), layout::dynamic::DRAIN_ERROR, facts);
        self.space.give_up();
    }

    fn note_success(&self, state: &mut State) {
        if state.failing {
            state.failing = false;
            let facts = [0, state.failures, state.first_failure];
            self.head
                .drain_error
                .0
                .store(self.ring.checks(), layout::dynamic::DRAIN_ERROR, facts);
        }
    }
}
