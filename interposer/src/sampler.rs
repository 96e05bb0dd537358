//! The thread that reads NVML now and then, and when it is asked.

use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::collections::BTreeMap;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use gpumem_capture::{ApiId, DeviceOrdinal, Event, EventFlags, EventKind, Level, Writer};
use gpumem_sys::wait::Alarm;

use gpumem_tracker::{Tracker, Verdict};

use crate::card::reading::{Card, Reading, Settled};
use crate::card::{self, library};
use crate::driver::DeviceFacts;
use crate::session::Session;
use crate::thread::{self, Started, Thread};
use crate::{account, call, fault, process, record, tracked};
use gpumem_capture::writer::lock::Lock;

/// The thread, once it was started.
static SAMPLER: OnceLock<Started> = OnceLock::new();
/// What it sleeps on.
static ALARM: Alarm = Alarm::new();
/// Readings that were asked for, and the newest of them that is answered.
static ASKED: AtomicU64 = AtomicU64::new(0);
static ANSWERED: AtomicU64 = AtomicU64::new(0);
/// Whether the process ends: what is read now is recorded in any case.
static ENDING: AtomicBool = AtomicBool::new(false);

/// Between two readings, however often they are asked for.
const PAUSE: Duration = Duration::from_millis(2);
/// How often in that time it is looked whether the process ends.
const LOOKS: u32 = 4;
/// How long a reading waits until nothing moves, looking now and then; after that it is an estimate.
const LONGEST_CALL: Duration = Duration::from_millis(50);
const BETWEEN_TRIES: Duration = Duration::from_micros(200);
/// How often a reading that the program asks for is tried.
const READINGS: u32 = 100;
/// After how long it is read again where evidence waits.
const AGAIN: Duration = Duration::from_millis(100);
/// How long the end of the process waits for its last reading, and for the thread to end.
const PATIENCE: Duration = Duration::from_millis(250);

/// Takes note of a device that this process uses, and sees to it that it is read.
pub(crate) fn know(session: &'static Session, ordinal: DeviceOrdinal, facts: &DeviceFacts) {
    if card::know(ordinal, facts) {
        start(session);
    }
}

/// A driver-level peak was reached on a device: it is worth a reading.
#[inline]
pub(crate) fn grown(writer: &'static Writer, ordinal: DeviceOrdinal) {
    static PEAKS: [AtomicU64; card::MOST] = [const { AtomicU64::new(0) }; card::MOST];
    if let Some(known) = PEAKS.get(usize::from(ordinal.0)) {
        let peak = writer.counters(ordinal, Level::DRIVER).peak;
        if known.fetch_max(peak, Ordering::Relaxed) < peak {
            ask();
        }
    }
}

/// Starts the thread, once.
fn start(session: &'static Session) {
    static STARTED: AtomicBool = AtomicBool::new(false);
    if STARTED.swap(true, Ordering::AcqRel) {
        return;
    }
    let every = session.sample_every;
    let started = thread::start(c"gpumem-nvml", move || run(session, every));
    match started {
        Ok(started) => {
            let _ = SAMPLER.set(started);
        }
        Err(error) => account::note(
            session.writer,
            &format!("the thread that reads NVML did not start: {error}"),
        ),
    }
}

/// Asks for a reading soon: a counter and a wake-up. Nothing once the process ends.
pub(crate) fn ask() {
    // A reading that was asked for and has not begun serves this one too.
    if SAMPLER.get().is_some() && !library::is_closed() {
        ASKED.fetch_add(1, Ordering::AcqRel);
        ALARM.wake();
    }
}

fn run(session: &'static Session, every: Option<Duration>) {
    if library::open().is_none() {
        card::note_missing(session.writer);
    }
    while !library::is_closed() {
        fault::check();
        let asked = ASKED.load(Ordering::Acquire);
        let again = round(session);
        ANSWERED.store(asked, Ordering::Release);
        if library::problem().is_some() || !session.writer.is_own_process() {
            return;
        }
        pause();
        let slept = Instant::now();
        while ASKED.load(Ordering::Acquire) == asked && !library::is_closed() {
            match every.or(again.then_some(AGAIN)) {
                None => ALARM.sleep(Duration::MAX),
                Some(every) => match every.checked_sub(slept.elapsed()) {
                    Some(left) if !left.is_zero() => ALARM.sleep(left),
                    _ => break,
                },
            }
        }
    }
}

/// Waits a little, or until the process ends: nobody may be kept waiting then. Counted, for a clock may be put
/// back meanwhile.
fn pause() {
    for _ in 0..LOOKS {
        if ENDING.load(Ordering::Acquire) {
            return;
        }
        std::thread::sleep(PAUSE / LOOKS);
    }
}

/// Reads every device that this process has used. Whether that is to be done again soon: evidence waits for a reading
/// at which nothing moves.
fn round(session: &'static Session) -> bool {
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
            was_still = thread::with(|thread| read(session, thread, ordinal, is_patient));
            if is_patient && was_still == Some(false) {
                std::thread::sleep(BETWEEN_TRIES);
            }
        }
        again |= was_still == Some(false)
            && tracked::look(session, |tracker| tracker.has_fresh_evidence(ordinal));
    }
    again
}

/// Reads a device on this thread: what is unexplained is charged, and the figures are recorded. Whether nothing moved
/// meanwhile; if something did and `only_still` is set, nothing is recorded. None: there is no reading.
fn read(
    session: &'static Session,
    thread: &Thread,
    ordinal: DeviceOrdinal,
    only_still: bool,
) -> Option<bool> {
    let before = call::still(thread);
    if before.is_none() && only_still {
        return Some(false);
    }
    if !ENDING.load(Ordering::Acquire) {
        // What pools and graphs gave back to make room for something else.
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
    record(session.writer, thread, ordinal, &read);
    Some(read.stable)
}

/// Reads a device now, on this thread: a context was made there, or has ended.
pub(crate) fn read_now(session: &'static Session, ordinal: DeviceOrdinal) {
    if library::open().is_none() {
        return;
    }
    if thread::with(|thread| read(session, thread, ordinal, true)) == Some(false) {
        ask();
    }
}

/// What came of a reading that the program asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Asked {
    Taken,
    /// NVML is not there, or does not know the device.
    Unreadable,
    /// Other threads moved memory meanwhile.
    Disturbed,
}

/// Reads a device, or (`None`) all that this process has used, because the program asks for it.
pub(crate) fn read_for_program(
    session: &'static Session,
    thread: &Thread,
    device: Option<DeviceOrdinal>,
) -> Asked {
    let devices = device.map_or_else(card::used_devices, |device| vec![device]);
    let mut came = Asked::Taken;
    for device in devices {
        let mut taken = None;
        for _ in 0..READINGS {
            taken = read(session, thread, device, true);
            if taken != Some(false) {
                break;
            }
            std::thread::sleep(BETWEEN_TRIES);
        }
        match taken {
            Some(true) => {}
            Some(false) => came = Asked::Disturbed,
            None => return Asked::Unreadable,
        }
    }
    came
}

/// What was last recorded of a device.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Recorded {
    mine: Option<u64>,
    others: Option<u64>,
    physical: u64,
    card: Card,
}

/// Records a reading if a figure has changed, or the process ends.
fn record(
    writer: &'static Writer,
    thread: &Thread,
    device: DeviceOrdinal,
    read: &Settled<Reading>,
) {
    static RECORDED: Lock<BTreeMap<u8, Recorded>> = Lock::new(BTreeMap::new());
    let now = Recorded {
        mine: read.reading.figures.mine,
        others: read.reading.figures.others,
        physical: read.physical,
        card: read.reading.card,
    };
    let ending = ENDING.load(Ordering::Acquire);
    if ending && now.mine == Some(0) && now.physical != 0 {
        return; // the driver has taken itself down before us: nothing is to be seen any more
    }
    let before = {
        let mut recorded = RECORDED.lock();
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

/// A last reading, at the end of the process, that was asked for.
pub(crate) struct Last {
    wanted: u64,
}

/// Asks for the last reading: it is made while what else there is to do at the end is done.
pub(crate) fn begin_last() -> Option<Last> {
    SAMPLER.get()?;
    if process::is_aside() || library::opened().is_none() {
        return None;
    }
    ENDING.store(true, Ordering::Release);
    let wanted = ASKED.fetch_add(1, Ordering::AcqRel) + 1;
    ALARM.wake();
    Some(Last { wanted })
}

impl Last {
    /// Waits for it, but never long, and not at all while other threads call the driver: it would be an
    /// estimate, and what such a thread comes back to may be gone by then (docs/measured/zoo.md).
    fn wait(self, began: Instant) {
        while ANSWERED.load(Ordering::Acquire) < self.wanted
            && began.elapsed() < PATIENCE
            && call::is_quiet()
        {
            std::thread::sleep(Duration::from_micros(100));
        }
    }
}

/// Waits for the last reading, if one was asked for, and stops the thread: from here on nothing of ours calls NVML,
/// whatever hooks still ask for. A thread that is inside of a call that does not return in time makes no other one
/// once it does.
pub(crate) fn end(last: Option<Last>) {
    let began = Instant::now();
    if let Some(last) = last {
        last.wait(began);
    }
    library::close();
    ALARM.wake();
    if let Some(sampler) = SAMPLER.get() {
        sampler.join_within(PATIENCE.saturating_sub(began.elapsed()));
    }
}
