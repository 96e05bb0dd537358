//! The thread that reads NVML periodically and on request.

use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::collections::BTreeMap;
use std::sync::OnceLock;
use std::time::Duration;

use gpumem_capture::{ApiId, DeviceOrdinal, Event, EventFlags, EventKind, Level, Writer};
use gpumem_sys::clock::Instant;
use gpumem_sys::own_stack;
use gpumem_sys::wait::{self, Alarm};

use gpumem_tracker::{Tracker, Verdict};

use crate::card::reading::{Card, Reading, Settled};
use crate::card::{self, library};
use crate::driver::DeviceFacts;
use crate::resolve::libraries;
use crate::session::{CardUse, Readings, Session};
use crate::thread::{self, Started, Thread};
use crate::{account, call, fault, process, record, tracked};
use gpumem_capture::writer::lock::Lock;

/// Minimum time between two readings, regardless of the number of requests.
const PAUSE: Duration = Duration::from_millis(2);
/// The number of checks in that time whether the process ends.
const LOOKS: u32 = 4;
/// How long a reading waits until no call is in progress, with repeated checks; after that it is an estimate.
const LONGEST_CALL: Duration = Duration::from_millis(50);
const BETWEEN_TRIES: Duration = Duration::from_micros(200);
/// The maximum number of attempts for a reading that the program requests.
const READINGS: u32 = 100;
/// Time until the next reading while there is evidence.
const AGAIN: Duration = Duration::from_millis(100);
/// How long the end of the process waits for its last reading, and for the thread to end.
const PATIENCE: Duration = Duration::from_millis(250);

/// The last recorded figures of a device.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Recorded {
    mine: Option<u64>,
    others: Option<u64>,
    physical: u64,
    card: Card,
}

/// The readings of a session.
pub(crate) struct Sampler {
    /// Whether the thread was started.
    started: AtomicBool,
    thread: OnceLock<Started>,
    /// The thread's alarm.
    alarm: Alarm,
    /// The number of requested readings, and the newest completed one.
    asked: AtomicU64,
    answered: AtomicU64,
    /// Whether the process ends: readings from now on are always recorded.
    ending: AtomicBool,
    /// The highest driver-level peak of each device for which a reading was requested.
    peaks: [AtomicU64; card::MOST],
    recorded: Lock<BTreeMap<u8, Recorded>>,
}

impl Sampler {
    /// No readings yet.
    pub(crate) const fn new() -> Self {
        Self {
            started: AtomicBool::new(false),
            thread: OnceLock::new(),
            alarm: Alarm::new(),
            asked: AtomicU64::new(0),
            answered: AtomicU64::new(0),
            ending: AtomicBool::new(false),
            peaks: [const { AtomicU64::new(0) }; card::MOST],
            recorded: Lock::new(BTreeMap::new()),
        }
    }

    /// Starts the thread, once.
    fn start(&'static self, session: &'static Session) {
        if self.started.swap(true, Ordering::AcqRel) {
            return;
        }
        let every = session.sample_every;
        let started = thread::start(c"gpumem-nvml", move || self.run(session, every));
        match started {
            Ok(started) => {
                let _ = self.thread.set(started);
            }
            Err(error) => account::note(
                session.writer,
                &format!("the thread that reads NVML did not start: {error}"),
            ),
        }
    }

    fn run(&self, session: &'static Session, every: Option<Duration>) {
        libraries::keep_driver();
        if library::open().is_none() {
            card::note_missing(session.writer);
        }
        while !library::is_closed() {
            fault::check();
            let asked = self.asked.load(Ordering::Acquire);
            let again = self.round(session);
            self.answered.store(asked, Ordering::Release);
            if library::problem().is_some() || !session.writer.is_own_process() {
                return;
            }
            self.pause();
            let slept = Instant::now();
            while self.asked.load(Ordering::Acquire) == asked && !library::is_closed() {
                match every.or(again.then_some(AGAIN)) {
                    None => self.alarm.sleep(Duration::MAX),
                    Some(every) => match every.checked_sub(slept.elapsed()) {
                        Some(left) if !left.is_zero() => self.alarm.sleep(left),
                        _ => break,
                    },
                }
            }
        }
    }

    /// Reads every device that this process has used. Returns whether to repeat that soon, because evidence waits for a
    /// reading without calls in progress.
    fn round(&self, session: &'static Session) -> bool {
        let mut again = false;
        for ordinal in card::used_devices() {
            if library::opened().is_none() {
                return false;
            }
            let began = Instant::now();
            let mut is_patient = true;
            let mut was_still = Some(false);
            while is_patient && was_still == Some(false) && library::opened().is_some() {
                is_patient = began.elapsed() < LONGEST_CALL;
                was_still = thread::with(|thread| self.read(session, thread, ordinal, is_patient));
                if is_patient && was_still == Some(false) {
                    wait::nap(BETWEEN_TRIES);
                }
            }
            if let (Some(watch), Some(card)) = (session.watch, self.card_use(ordinal)) {
                watch.card_read(ordinal, card);
            }
            again |= was_still == Some(false)
                && tracked::look(session, |tracker| tracker.has_fresh_evidence(ordinal));
        }
        again
    }

    /// The last recorded figures of a card.
    fn card_use(&self, device: DeviceOrdinal) -> Option<CardUse> {
        let recorded = *self.recorded.lock().get(&device.0)?;
        Some(CardUse {
            used: recorded.card.used,
            total: recorded.card.total,
            mine: recorded.mine,
        })
    }

    /// Reads a device on this thread: unexplained bytes are charged, and the figures are recorded. Returns whether
    /// memory did not change meanwhile; if it did and `only_still` is set, nothing is recorded. None: there is no
    /// reading.
    fn read(
        &self,
        session: &'static Session,
        thread: &Thread,
        ordinal: DeviceOrdinal,
        only_still: bool,
    ) -> Option<bool> {
        let before = call::still(thread);
        if before.is_none() && only_still {
            return Some(false);
        }
        if !self.ending.load(Ordering::Acquire) {
            // Records what pools and graphs freed to make room for other memory.
            record::settle_in(session, record::caller(thread, ApiId(0)));
        }
        let ticket = tracked::look(session, Tracker::begin_reading);
        let mut read = card::read(session.writer, ordinal)?;
        let figures = read.reading.figures;
        let verdict = {
            let managed = tracked::look(session, |tracker| tracker.managed(ordinal));
            let is_still = read.stable && before.is_some() && call::still(thread) == before;
            tracked::apply(session, |tracker| {
                tracker.read(&gpumem_tracker::Reading {
                    device: ordinal,
                    mine: figures.mine,
                    others: figures.others,
                    used: read.reading.card.used,
                    explained: read.physical,
                    managed,
                    ticket,
                    is_still,
                })
            })
        };
        match verdict {
            Verdict::Taken { explained, .. } => read.physical = explained,
            Verdict::Disturbed if only_still => return Some(false),
            Verdict::Disturbed => read.stable = false,
        }
        self.record(session.writer, thread, ordinal, &read);
        Some(read.stable)
    }

    /// Records a reading if a figure has changed, or the process ends.
    fn record(
        &self,
        writer: &'static Writer,
        thread: &Thread,
        device: DeviceOrdinal,
        read: &Settled<Reading>,
    ) {
        let now = Recorded {
            mine: read.reading.figures.mine,
            others: read.reading.figures.others,
            physical: read.physical,
            card: read.reading.card,
        };
        let ending = self.ending.load(Ordering::Acquire);
        if ending && now.mine == Some(0) && now.physical != 0 {
            return; // the driver has taken itself down before us: nothing is to be seen any more
        }
        let before = {
            let mut recorded = self.recorded.lock();
            recorded.insert(device.0, now)
        };
        if before == Some(now) && !ending {
            return;
        }
        let unknown = |bytes: Option<u64>| bytes.unwrap_or(u64::MAX);
        let flags = if read.stable {
            EventFlags::NONE
        } else {
            EventFlags::ESTIMATED
        };
        let event = Event {
            time: writer.now(),
            thread: thread.id(),
            level: Level::PHYSICAL,
            device,
            ..Event::default()
        };
        let _ = writer.event(&Event {
            kind: EventKind::SAMPLE,
            bytes: unknown(now.mine),
            aux: unknown(now.others),
            ptr: now.physical,
            flags,
            ..event
        });
        if before.map(|before| before.card) != Some(now.card) {
            let _ = writer.event(&Event {
                kind: EventKind::CARD,
                bytes: now.card.used,
                aux: now.card.reserved,
                ptr: now.card.total,
                ..event
            });
        }
    }

    /// Waits briefly for the last reading, and not at all while other threads call the driver: it would be an estimate,
    /// and the code that such a thread returns to may no longer exist by then (docs/measured/zoo.md).
    fn await_last(&self, last: u64, began: Instant) {
        while self.answered.load(Ordering::Acquire) < last
            && began.elapsed() < PATIENCE
            && call::is_quiet()
        {
            wait::nap(Duration::from_micros(100));
        }
    }

    /// Waits briefly, or until the process ends. Counted, because a clock may be set back meanwhile.
    fn pause(&self) {
        for _ in 0..LOOKS {
            if self.ending.load(Ordering::Acquire) {
                return;
            }
            wait::nap(PAUSE / LOOKS);
        }
    }
}

impl Readings for Sampler {
    fn know(&'static self, session: &'static Session, ordinal: DeviceOrdinal, facts: &DeviceFacts) {
        if card::know(ordinal, facts) {
            self.start(session);
        }
    }

    fn grown(&self, writer: &'static Writer, ordinal: DeviceOrdinal) {
        if let Some(known) = self.peaks.get(usize::from(ordinal.0)) {
            let peak = writer.counters(ordinal, Level::DRIVER).peak;
            if known.fetch_max(peak, Ordering::Relaxed) < peak {
                self.read_soon();
            }
        }
    }

    fn read_soon(&self) {
        // A requested reading that has not begun serves this request too.
        if self.thread.get().is_some() && !library::is_closed() {
            self.asked.fetch_add(1, Ordering::AcqRel);
            self.alarm.wake();
        }
    }

    fn read_now(&self, session: &'static Session, ordinal: DeviceOrdinal) {
        if own_stack::run(library::open).is_none() {
            return;
        }
        let read = || thread::with(|thread| self.read(session, thread, ordinal, true));
        if own_stack::run(read) == Some(false) {
            self.read_soon();
        }
    }

    fn read_for_program(
        &self,
        session: &'static Session,
        thread: &Thread,
        device: Option<DeviceOrdinal>,
    ) -> Option<bool> {
        let devices = device.map_or_else(card::used_devices, |device| vec![device]);
        let mut was_still = true;
        for device in devices {
            let mut taken = None;
            for _ in 0..READINGS {
                taken = own_stack::run(|| self.read(session, thread, device, true));
                if taken != Some(false) {
                    break;
                }
                wait::nap(BETWEEN_TRIES);
            }
            match taken {
                Some(true) => {}
                Some(false) => was_still = false,
                None => return None,
            }
        }
        Some(was_still)
    }

    fn begin_last(&self) -> Option<u64> {
        self.thread.get()?;
        if process::is_aside() || library::opened().is_none() {
            return None;
        }
        self.ending.store(true, Ordering::Release);
        let wanted = self.asked.fetch_add(1, Ordering::AcqRel) + 1;
        self.alarm.wake();
        Some(wanted)
    }

    fn end(&self, last: Option<u64>) {
        let began = Instant::now();
        if let Some(last) = last {
            self.await_last(last, began);
        }
        library::close();
        self.alarm.wake();
        if let Some(sampler) = self.thread.get() {
            sampler.join_within(PATIENCE.saturating_sub(began.elapsed()));
        }
    }
}
