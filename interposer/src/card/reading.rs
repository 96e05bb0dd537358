//! One answer of NVML about a device, with the second ledger's figure at the same time.

use gpumem_capture::{DeviceOrdinal, Level, Writer, assert_may_wait};
use gpumem_cuda_abi::CuDevice;
use nvml_wrapper::Device;
use nvml_wrapper::error::NvmlError;

use super::process::{self, Figures};
use super::state::{Identity, Listed};
use super::withheld;
use super::{device, library};
use crate::driver;

/// The card's own figures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Card {
    /// Includes the driver's reserved memory.
    pub(crate) used: u64,
    /// The driver's reserved memory; 0 if it is not reported.
    pub(crate) reserved: u64,
    pub(crate) total: u64,
}

/// One answer.
#[derive(Clone, Debug)]
pub(crate) struct Reading {
    pub(crate) card: Card,
    /// The processes; `None` if NVML does not report them.
    pub(crate) list: Option<Vec<Listed>>,
    pub(crate) figures: Figures,
}

/// The card's figures, in the newest form that the library has.
fn card(device: &Device<'_>) -> Option<Card> {
    library::opened()?;
    assert_may_wait();
    match device.memory_info() {
        Ok(info) => Some(Card {
            used: info.used.saturating_add(info.reserved),
            reserved: info.reserved,
            total: info.total,
        }),
        Err(NvmlError::GpuLost | NvmlError::Uninitialized) => None,
        Err(_) => first_form(device),
    }
}

/// The figures of drivers before 510, which do not report reserved memory separately.
fn first_form(device: &Device<'_>) -> Option<Card> {
    library::opened()?;
    let function = device.nvml().lib().nvmlDeviceGetMemoryInfo.as_ref().ok()?;
    // SAFETY: the structure is of plain integers.
    let mut info = unsafe { core::mem::zeroed() };
    // SAFETY: the handle is NVML's own and the structure is writable.
    let code = unsafe { function(device.handle(), &mut info) };
    (code == 0).then_some(Card {
        used: info.used,
        reserved: 0,
        total: info.total,
    })
}

/// Queries everything about a device. `identify` finds this process in its list, if its id there is
/// not known yet.
fn read(
    ordinal: DeviceOrdinal,
    device: &Device<'_>,
    identify: impl FnOnce(&[Listed]) -> Option<u32>,
) -> Option<Reading> {
    let ask = || Some((card(device)?, process::list(device)));
    let (answer, withheld) = withheld::read(ordinal, ask);
    let (mut card, list) = answer?;
    if list.is_none() && library::is_closed() {
        return None; // it was not asked to the end
    }
    card.used = card.used.saturating_sub(withheld);
    let mut figures = match list.as_deref() {
        Some(list) => process::figures(list, identify(list)),
        None => Figures {
            mine: None,
            others: None,
        },
    };
    figures.mine = figures.mine.map(|mine| mine.saturating_sub(withheld));
    Some(Reading {
        card,
        list,
        figures,
    })
}

/// The card's figures only.
pub(super) fn card_of(ordinal: DeviceOrdinal, device: &Device<'_>) -> Option<Card> {
    let (answer, withheld) = withheld::read(ordinal, || card(device));
    let mut card = answer?;
    card.used = card.used.saturating_sub(withheld);
    Some(card)
}

/// The free bytes of a device according to NVML, queried on this thread. The driver must be
/// initialised.
pub(crate) fn free(ordinal: DeviceOrdinal) -> Option<u64> {
    let nvml = library::open()?;
    if device::known(ordinal).is_none() {
        let facts = driver::device_facts(CuDevice(i32::from(ordinal.0)));
        device::find(nvml, ordinal, &Identity::of(&facts));
    }
    let card = card_of(ordinal, device::known(ordinal)?)?;
    Some(card.total.saturating_sub(card.used))
}

/// A reading from before this process has a context on the device.
pub(super) fn unborn(ordinal: DeviceOrdinal, device: &Device<'_>) -> Option<Reading> {
    read(ordinal, device, |_| process::me())
}

/// A reading and the physical level's live bytes. If it is stable, they were the same before and
/// after it.
#[derive(Clone, Debug)]
pub(crate) struct Settled<R> {
    pub(crate) reading: R,
    pub(crate) physical: u64,
    pub(crate) stable: bool,
}

/// The maximum number of attempts while the physical level changes.
const TRIES: u32 = 3;

/// Reads until `physical` is the same before and after, or [`TRIES`] times.
fn steadily<R>(
    mut physical: impl FnMut() -> u64,
    mut read: impl FnMut() -> Option<R>,
) -> Option<Settled<R>> {
    let mut before = physical();
    let mut tries = 0;
    loop {
        let reading = read()?;
        let after = physical();
        tries += 1;
        if after == before || tries == TRIES {
            return Some(Settled {
                reading,
                physical: after,
                stable: after == before,
            });
        }
        before = after;
    }
}

/// A reading of `device` while the physical level did not change, if there is one.
pub(super) fn settled(
    writer: &Writer,
    ordinal: DeviceOrdinal,
    device: &Device<'_>,
) -> Option<Settled<Reading>> {
    steadily(
        || writer.counters(ordinal, Level::PHYSICAL).live,
        || read(ordinal, device, |list| process::identify(ordinal, list)),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The readings that [`steadily`] makes while the level takes these values one after the other.
    fn made(level: &[u64]) -> (u32, Settled<u32>) {
        let mut values = level.iter().copied();
        let mut readings = 0;
        let settled = steadily(
            || values.next().unwrap_or(0),
            || {
                readings += 1;
                Some(readings)
            },
        );
        (readings, settled.expect("each reading succeeded"))
    }

    #[test]
    fn a_level_that_stands_still_is_read_once() {
        let (readings, settled) = made(&[5, 5]);
        assert_eq!((readings, settled.physical, settled.stable), (1, 5, true));
    }

    #[test]
    fn a_level_that_moves_is_read_again() {
        let (readings, settled) = made(&[5, 6, 6]);
        assert_eq!((readings, settled.physical, settled.stable), (2, 6, true));
        assert_eq!(settled.reading, 2);
    }

    #[test]
    fn a_level_that_never_stands_still_is_an_estimate() {
        let (readings, settled) = made(&[5, 6, 7, 8, 9]);
        assert_eq!((readings, settled.physical, settled.stable), (3, 8, false));
    }

    #[test]
    fn no_answer_is_no_reading() {
        assert!(steadily(|| 1, || None::<u32>).is_none());
    }
}
