//! NVML: the card's own figures for this process.
//!
//! | part | purpose |
//! |---|---|
//! | [`library`] | opens libnvidia-ml.so.1, once, off the hot paths |
//! | [`device`] | NVML's devices by CUDA's ordinals |
//! | [`process`] | this process among those that NVML lists |
//! | [`reading`] | one answer, with the physical level's figure |
//! | [`state`] | the state of all these |
//! | [`withheld`] | the memory that a limit temporarily takes from a card, by which answers are corrected |
//!
//! If NVML is missing, or does not have the card or this process, one line of the account reports it and everything
//! else works as before. No lock is held while NVML or the driver is queried.

mod device;
pub(crate) mod library;
mod process;
pub(crate) mod reading;
mod state;
pub(crate) mod withheld;

use core::sync::atomic::Ordering;

use gpumem_capture::{DeviceOrdinal, Writer};
use gpumem_cuda_abi::CuDevice;

pub(crate) use self::process::used_before_first;
use self::reading::{Reading, Settled};
pub(crate) use self::state::MOST;
use self::state::{CARD, Identity};
use crate::account::{self, Once};
use crate::driver::{self, DeviceFacts};

/// Registers a device that this process uses. Returns whether it can be read.
pub(crate) fn know(ordinal: DeviceOrdinal, facts: &DeviceFacts) -> bool {
    if usize::from(ordinal.0) >= MOST {
        return false;
    }
    CARD.identities
        .lock()
        .entry(ordinal.0)
        .or_insert_with(|| Identity::of(facts));
    true
}

/// The devices that this process has used.
pub(crate) fn used_devices() -> Vec<DeviceOrdinal> {
    CARD.identities
        .lock()
        .keys()
        .copied()
        .map(DeviceOrdinal)
        .collect()
}

/// Whether NVML is available, or was not tried yet.
pub(crate) fn can_be_read() -> bool {
    library::problem().is_none() && !library::is_closed()
}

/// Reads a device that this process has used, on this thread. It may take milliseconds.
pub(crate) fn read(writer: &'static Writer, ordinal: DeviceOrdinal) -> Option<Settled<Reading>> {
    let identity = CARD.identities.lock().get(&ordinal.0).cloned()?;
    if !device::find(library::open()?, ordinal, &identity) {
        if !library::is_closed() {
            note_unknown_device(writer, ordinal);
        }
        return None;
    }
    let read = reading::settled(writer, ordinal, device::known(ordinal)?)?;
    if read.reading.figures.mine.is_none() {
        note_hidden(writer);
    }
    Some(read)
}

/// Reads a device before this process's first context on it: the other processes, and the used memory. Returns
/// whether that was done before.
pub(crate) fn read_before_first(ordinal: DeviceOrdinal, explained: u64) -> bool {
    let Some(nvml) = library::open() else {
        return false;
    };
    if process::used_before_first(ordinal).is_some() {
        return true;
    }
    let facts = driver::device_facts(CuDevice(i32::from(ordinal.0)));
    device::find(nvml, ordinal, &Identity::of(&facts));
    let device = device::known(ordinal);
    if let Some(read) = device.and_then(|device| reading::unborn(ordinal, device)) {
        process::keep_before(ordinal, read.list.as_deref(), read.card.used, explained);
    }
    false
}

/// A device's UUID in NVML's format, without its prefix.
pub(crate) fn uuid_text(uuid: &[u8; 16]) -> String {
    device::text(uuid)
}

/// Notes why there are no figures, if so.
pub(crate) fn note_missing(writer: &'static Writer) {
    if let Some(problem) = library::problem()
        && account::is_first(Once::NvmlMissing)
    {
        let line = format!(
            "NVML cannot be used ({problem}): physical memory beyond requested bytes is not measured"
        );
        account::note(writer, &line);
    }
}

/// Notes that NVML does not have a device.
fn note_unknown_device(writer: &'static Writer, ordinal: DeviceOrdinal) {
    let bit = 1 << (ordinal.0 & 63);
    if CARD.unknown.fetch_or(bit, Ordering::Relaxed) & bit == 0 {
        let line = format!(
            "NVML does not know GPU {}: physical memory beyond requested bytes is not measured there",
            ordinal.0
        );
        account::note(writer, &line);
    }
}

/// Notes that NVML does not report this process's figure.
fn note_hidden(writer: &'static Writer) {
    let line = "NVML does not report this process's memory: the cost of contexts and modules is taken from the card's figure";
    if account::is_first(Once::NvmlHidden) {
        account::note(writer, line);
    }
}
