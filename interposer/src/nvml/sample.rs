//! The thread that reads NVML now and then, and when it is asked.

use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::collections::BTreeMap;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use gpumem_capture::{DeviceOrdinal, Event, EventFlags, EventKind, Level, Writer};
use gpumem_sys::wait::Alarm;

use super::reading::{self, Card, Reading, Settled};
use super::{
    device, implicit, library, note_hidden, note_missing, note_unknown_device, remainder,
    used_devices,
};
use crate::lock::Lock;
use crate::session::Session;
use crate::thread::{self, Started};
use crate::{account, call, fault, process};

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
/// How long a reading waits for calls in progress, looking now and then; after that it is an estimate.
const LONGEST_CALL: Duration = Duration::from_millis(50);
const BETWEEN_TRIES: Duration = Duration::from_micros(200);
/// How long the end of the process waits for its last reading, and for the thread to end.
const PATIENCE: Duration = Duration::from_millis(250);

/// Starts the thread, once.
pub(super) fn start(session: &'static Session) {
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
        note_missing(session.writer);
    }
    while !library::is_closed() {
        fault::check();
        let asked = ASKED.load(Ordering::Acquire);
        round(session);
        ANSWERED.store(asked, Ordering::Release);
        if library::problem().is_some() || !session.writer.is_own_process() {
            return;
        }
        pause();
        let slept = Instant::now();
        while ASKED.load(Ordering::Acquire) == asked && !library::is_closed() {
            match every {
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

/// Reads every device that this process has used.
fn round(session: &'static Session) {
    for (ordinal, identity) in used_devices() {
        let Some(nvml) = library::opened() else {
            return;
        };
        if !device::find(nvml, ordinal, &identity) && !library::is_closed() {
            note_unknown_device(session.writer, ordinal);
        }
        let Some(device) = device::known(ordinal) else {
            continue;
        };
        let before = call::still();
        // Looked at before the reading: whoever pays what is owed takes the mark away first.
        let settled = before.is_some() && !remainder::is_owed(ordinal);
        if let Some(read) = undisturbed(|| reading::settled(session.writer, ordinal, device)) {
            if settled && call::still() == before {
                remainder::seen(ordinal, &read);
            }
            record(session.writer, ordinal, &read);
        }
    }
}

/// A reading with no call in progress that moves memory; after a while any, as an estimate.
fn undisturbed<R>(read: impl Fn() -> Option<Settled<R>>) -> Option<Settled<R>> {
    let quiet = || call::quiet().filter(|_| !implicit::in_progress());
    let began = Instant::now();
    loop {
        library::opened()?;
        let before = quiet();
        let patient = began.elapsed() < LONGEST_CALL;
        if before.is_some() || !patient {
            let mut settled = read()?;
            if before.is_some() && quiet() == before {
                return Some(settled);
            }
            if !patient {
                settled.stable = false;
                return Some(settled);
            }
        }
        std::thread::sleep(BETWEEN_TRIES);
    }
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
fn record(writer: &'static Writer, device: DeviceOrdinal, read: &Settled<Reading>) {
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
    if now.mine.is_none() {
        note_hidden(writer);
    }
    let unknown = |bytes: Option<u64>| bytes.unwrap_or(u64::MAX);
    let flags = if read.stable {
        EventFlags::NONE
    } else {
        EventFlags::ESTIMATED
    };
    let event = Event {
        time: writer.now(),
        thread: thread::with(|thread| thread.id()),
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
            && call::quiet().is_some()
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
