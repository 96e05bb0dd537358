//! NVML: what the card itself says of this process, and what follows from it.
//!
//! | part | what it does |
//! |---|---|
//! | [`library`] | opens libnvidia-ml.so.1, once, off the paths that matter |
//! | [`device`] | NVML's devices by CUDA's ordinals |
//! | [`process`] | this process among those that NVML lists |
//! | [`reading`] | one answer, at a moment when the second ledger stood still |
//! | [`sample`] | the thread that reads now and then, and the last reading |
//! | [`implicit`] | bytes that no call asked for: contexts, modules, limits, stacks |
//! | [`endings`] | what contexts and modules held, as they end |
//! | [`remainder`] | what was measured while others were at work, put right when nobody is |
//! | [`kernels`] | which functions have run, and of which module they are |
//!
//! Where NVML is not there, or does not know the card or this process, one line of the account says so
//! and all else works as before. No lock is held while NVML or the driver is asked.

mod device;
pub(crate) mod endings;
pub(crate) mod implicit;
pub(crate) mod kernels;
mod library;
mod process;
pub(crate) mod reading;
pub(crate) mod remainder;
mod sample;

use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::collections::BTreeMap;

use gpumem_capture::{DeviceOrdinal, Level, Writer};

pub(crate) use sample::{ask, begin_last, end};

use self::device::Identity;
use crate::account;
use crate::driver::DeviceFacts;
use crate::lock::{Guard, Lock};
use crate::session::Session;

/// By what each device that this process has used can be found.
fn identities() -> Guard<'static, BTreeMap<u8, Identity>> {
    static IDENTITIES: Lock<BTreeMap<u8, Identity>> = Lock::new(BTreeMap::new());
    IDENTITIES.lock()
}

/// Takes note of a device that this process uses, and sees to it that it is sampled.
pub(crate) fn know(session: &'static Session, ordinal: DeviceOrdinal, facts: &DeviceFacts) {
    if usize::from(ordinal.0) >= device::MOST {
        return;
    }
    identities()
        .entry(ordinal.0)
        .or_insert_with(|| Identity::of(facts));
    sample::start(session);
}

/// The devices that this process has used.
fn used_devices() -> Vec<(DeviceOrdinal, Identity)> {
    let all = identities();
    all.iter()
        .map(|(ordinal, identity)| (DeviceOrdinal(*ordinal), identity.clone()))
        .collect()
}

/// What NVML says of a device at this moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Now {
    /// The card's memory, and what of it is in use: with what the driver keeps for itself.
    pub(crate) total: u64,
    pub(crate) used: u64,
    /// What this process and all others use; `None` if NVML does not tell.
    pub(crate) mine: Option<u64>,
    pub(crate) others: Option<u64>,
}

/// Asks NVML about a device, on this thread. It may take milliseconds.
pub(crate) fn now(writer: &Writer, ordinal: DeviceOrdinal) -> Option<Now> {
    let identity = identities().get(&ordinal.0).cloned()?;
    if !device::find(library::open()?, ordinal, &identity) {
        return None;
    }
    let read = reading::settled(writer, ordinal, device::known(ordinal)?)?.reading;
    Some(Now {
        total: read.card.total,
        used: read.card.used,
        mine: read.figures.mine,
        others: read.figures.others,
    })
}

/// A device's UUID as NVML writes it, less its prefix.
pub(crate) fn uuid_text(uuid: &[u8; 16]) -> String {
    device::text(uuid)
}

/// A driver-level peak was reached on a device: it is worth a reading.
#[inline]
pub(crate) fn grown(writer: &'static Writer, ordinal: DeviceOrdinal) {
    static PEAKS: [AtomicU64; device::MOST] = [const { AtomicU64::new(0) }; device::MOST];
    if let Some(known) = PEAKS.get(usize::from(ordinal.0)) {
        let peak = writer.counters(ordinal, Level::DRIVER).peak;
        if known.fetch_max(peak, Ordering::Relaxed) < peak {
            ask();
        }
    }
}

/// Writes a line for the account the first time that `said` is used.
fn note_once(said: &AtomicBool, writer: &'static Writer, line: &str) {
    if !said.swap(true, Ordering::Relaxed) {
        account::note(writer, line);
    }
}

/// Says why there is no figure, where there is none.
fn note_missing(writer: &'static Writer) {
    static SAID: AtomicBool = AtomicBool::new(false);
    if let Some(problem) = library::problem() {
        let line = format!(
            "NVML cannot be used ({problem}): physical memory beyond what calls asked for is not \
             measured"
        );
        note_once(&SAID, writer, &line);
    }
}

/// Says that NVML does not know a device.
fn note_unknown_device(writer: &'static Writer, ordinal: DeviceOrdinal) {
    static SAID: AtomicU64 = AtomicU64::new(0);
    let bit = 1 << (ordinal.0 & 63);
    if SAID.fetch_or(bit, Ordering::Relaxed) & bit == 0 {
        let line = format!(
            "NVML does not know GPU {}: physical memory beyond what calls asked for is not measured \
             there",
            ordinal.0
        );
        account::note(writer, &line);
    }
}

/// Says that NVML does not tell this process's figure.
fn note_hidden(writer: &'static Writer) {
    static SAID: AtomicBool = AtomicBool::new(false);
    let line = "NVML does not tell what this process uses: what contexts and modules cost is taken from \
                the card's own figure";
    note_once(&SAID, writer, line);
}
