//! The figures of the card that are returned to the program: those of a card that has no more than the limit.

use core::ffi::{c_char, c_void};

use gpumem_capture::DeviceOrdinal;
use gpumem_cuda_abi::CuDevice;

use super::spec::DEVICES;
use super::{LIMIT, any, asked, beyond, is_foreign};
use crate::card::withheld;
use crate::driver;
use crate::resolve::libraries::{self, Home};
use crate::thread;

/// A card's figures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Figures {
    pub(crate) total: u64,
    pub(crate) free: u64,
    pub(crate) used: u64,
}

impl Figures {
    /// The figures of a card without the part `beyond` its limit, of which `taken` is currently withheld.
    pub(super) fn limited(self, beyond: u64, taken: u64) -> Self {
        Self {
            total: self.total.saturating_sub(beyond),
            free: self.free.saturating_add(taken).saturating_sub(beyond),
            used: self.used.saturating_sub(taken),
        }
    }
}

/// Queries by `ask`, and converts the figures to those of the limited device; `None` if they stay unchanged.
fn changed<R>(
    device: DeviceOrdinal,
    ask: impl FnMut() -> R,
    figures: impl FnOnce(&R) -> Option<Figures>,
) -> Option<Figures> {
    let beyond = beyond(device);
    if beyond == 0 {
        return None;
    }
    let (answer, withheld) = withheld::read(device, ask);
    Some(figures(&answer)?.limited(beyond, withheld))
}

/// Runs `f` unless our own code queries, or in a child forked from a process with a limit.
fn for_the_program<R>(f: impl FnOnce() -> Option<R>) -> Option<R> {
    if thread::with(|thread| thread.in_recorder.get()) || is_foreign() {
        return None;
    }
    thread::guarded(|_| f()).flatten()
}

/// The free and total memory to return for the current context's device, if it is limited. `ask` queries the
/// driver itself; `None` if it fails.
pub(crate) fn current(mut ask: impl FnMut() -> Option<(u64, u64)>) -> Option<(u64, u64)> {
    if !any() {
        return None;
    }
    let seen = for_the_program(|| {
        changed(driver::current_device(), &mut ask, |answer| {
            answer.map(|(free, total)| Figures {
                total,
                free,
                used: 0,
            })
        })
    })?;
    Some((seen.free, seen.total))
}

/// The total memory to return for a device, if it is limited.
pub(crate) fn total(device: CuDevice, total: u64) -> Option<u64> {
    if !any() {
        return None;
    }
    for_the_program(|| Some(beyond(driver::ordinal(device))))
        .filter(|beyond| *beyond != 0)
        .map(|beyond| total.saturating_sub(beyond))
}

/// The figures to return for an NVML device, if it is limited. `reserved` is the driver's reserved memory,
/// which NVML's total includes.
pub(crate) fn by_nvml(
    handle: *mut c_void,
    mut ask: impl FnMut() -> Option<(Figures, u64)>,
) -> Option<Figures> {
    if !any() {
        return None;
    }
    for_the_program(|| match ordinal(handle)? {
        Some(device) => changed(device, &mut ask, |answer| {
            answer.map(|(figures, _)| figures)
        }),
        // CUDA is not initialised yet: only the limit of all devices is known.
        None => {
            let (figures, reserved) = ask()?;
            let limit = of_every_device()?;
            let beyond = figures.total.saturating_sub(reserved).saturating_sub(limit);
            Some(figures.limited(beyond, 0))
        }
    })
}

/// The limit of all devices, if they have the same one.
fn of_every_device() -> Option<u64> {
    let first = asked(DeviceOrdinal(0))?;
    let all = (0..DEVICES as u8).all(|device| asked(DeviceOrdinal(device)) == Some(first));
    all.then_some(first)
}

/// CUDA's ordinal of an NVML device: `Some(None)` while CUDA is not initialised; `None` for a device that this
/// process does not have.
fn ordinal(handle: *mut c_void) -> Option<Option<DeviceOrdinal>> {
    let known = || LIMIT.nvml_devices.lock();
    if let Some(device) = known().get(&(handle as usize)) {
        return Some(Some(DeviceOrdinal(*device)));
    }
    let Some(count) = driver::device_count() else {
        return Some(None);
    };
    let uuid = uuid(handle)?;
    let same = |device: &u8| {
        let bytes = driver::device_facts(CuDevice(i32::from(*device))).uuid;
        let text = crate::card::uuid_text(&bytes);
        uuid.get(4..) == Some(text.as_bytes())
    };
    let found = (0..count.min(DEVICES as u8)).find(same)?;
    known().insert(handle as usize, found);
    Some(Some(DeviceOrdinal(found)))
}

/// A device's UUID by NVML: `GPU-…` or `MIG-…`.
fn uuid(handle: *mut c_void) -> Option<Vec<u8>> {
    type Function = unsafe extern "C" fn(*mut c_void, *mut c_char, u32) -> u32;
    let address = libraries::find(Home::Nvml, c"nvmlDeviceGetUUID", 0);
    if address == 0 {
        return None;
    }
    // SAFETY: NVML exports the function of that name with this type.
    let function = unsafe { core::mem::transmute::<usize, Function>(address) };
    let mut text = [0u8; 96];
    // SAFETY: the handle is the caller's own, which NVML has just taken; the buffer is as long as said.
    let code = unsafe { function(handle, text.as_mut_ptr().cast(), text.len() as u32) };
    let end = text.iter().position(|byte| *byte == 0)?;
    (code == 0)
        .then(|| text.get(..end).map(<[u8]>::to_vec))
        .flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_those_of_a_smaller_card() {
        let card = Figures {
            total: 100,
            free: 70,
            used: 30,
        };
        let seen = Figures {
            total: 40,
            free: 10,
            used: 30,
        };
        assert_eq!(card.limited(60, 0), seen);
        // While everything beyond the limit is withheld, the card reports it as used.
        let taken = Figures {
            total: 100,
            free: 10,
            used: 90,
        };
        assert_eq!(taken.limited(60, 60), seen);
        // More is in use than the limit: nothing is free.
        assert_eq!(
            card.limited(80, 0),
            Figures {
                total: 20,
                free: 0,
                used: 30
            }
        );
    }
}
