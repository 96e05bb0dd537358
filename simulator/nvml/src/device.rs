//! Devices: handles and identity.
#![allow(non_snake_case)]

use crate::library::machine;
use crate::out::{Out, Text, TextOut, put};
use crate::result::{Answer, Return, answer};
use gpumem_sim_machine::DeviceSpec;
use std::sync::OnceLock;

/// `nvmlDevice_t`: a number for a card or a MIG instance, never dereferenced.
#[repr(transparent)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Device(usize);

impl Device {
    const FIRST: usize = 0x5d_0000_0000_1000;
    const STEP: usize = 0x10;

    pub(crate) fn of(spec: &DeviceSpec) -> Self {
        Self(Self::FIRST + spec.unit() * Self::STEP)
    }

    pub(crate) fn spec(self) -> Answer<&'static DeviceSpec> {
        let found = known().iter().find(|spec| Self::of(spec) == self);
        found.ok_or(Return::INVALID_ARGUMENT)
    }

    /// Its card, or the card itself.
    pub(crate) fn card(self) -> Answer<&'static DeviceSpec> {
        let index = self.spec()?.index;
        let card = machine().devices.get(index as usize);
        card.ok_or(Return::INVALID_ARGUMENT)
    }
}

/// Every card and every MIG instance.
fn known() -> &'static [DeviceSpec] {
    static KNOWN: OnceLock<Vec<DeviceSpec>> = OnceLock::new();
    KNOWN.get_or_init(|| {
        let machine = machine();
        let instances = machine.devices.iter().flat_map(|card| {
            (0..card.instances).filter_map(|n| card.instance(n, machine.page_bytes))
        });
        machine.devices.iter().cloned().chain(instances).collect()
    })
}

/// `nvmlDeviceGetCount_v2`.
#[unsafe(no_mangle)]
pub extern "C" fn nvmlDeviceGetCount_v2(count: Out<'_, u32>) -> Return {
    answer(|| put(count, machine().devices.len() as u32))
}

/// `nvmlDeviceGetCount`.
#[unsafe(no_mangle)]
pub extern "C" fn nvmlDeviceGetCount(count: Out<'_, u32>) -> Return {
    nvmlDeviceGetCount_v2(count)
}

/// `nvmlDeviceGetHandleByIndex_v2`.
#[unsafe(no_mangle)]
pub extern "C" fn nvmlDeviceGetHandleByIndex_v2(index: u32, device: Out<'_, Device>) -> Return {
    answer(|| {
        let card = machine().devices.get(index as usize);
        put(device, Device::of(card.ok_or(Return::INVALID_ARGUMENT)?))
    })
}

/// `nvmlDeviceGetHandleByIndex`.
#[unsafe(no_mangle)]
pub extern "C" fn nvmlDeviceGetHandleByIndex(index: u32, device: Out<'_, Device>) -> Return {
    nvmlDeviceGetHandleByIndex_v2(index, device)
}

fn find(device: Out<'_, Device>, is_it: impl Fn(&DeviceSpec) -> bool) -> Answer {
    let found = known().iter().find(|spec| is_it(spec));
    put(device, Device::of(found.ok_or(Return::NOT_FOUND)?))
}

/// `nvmlDeviceGetHandleByUUID`: of a card or a MIG instance.
#[unsafe(no_mangle)]
pub extern "C" fn nvmlDeviceGetHandleByUUID(uuid: Text, device: Out<'_, Device>) -> Return {
    answer(|| {
        let uuid = uuid.get()?;
        find(device, |spec| spec.uuid_text() == uuid)
    })
}

/// `nvmlDeviceGetHandleByPciBusId_v2`.
#[unsafe(no_mangle)]
pub extern "C" fn nvmlDeviceGetHandleByPciBusId_v2(pci: Text, device: Out<'_, Device>) -> Return {
    answer(|| {
        let pci = pci.get()?;
        find(device, |spec| spec.instance.is_none() && spec.has_pci(&pci))
    })
}

/// `nvmlDeviceGetHandleByPciBusId`.
#[unsafe(no_mangle)]
pub extern "C" fn nvmlDeviceGetHandleByPciBusId(pci: Text, device: Out<'_, Device>) -> Return {
    nvmlDeviceGetHandleByPciBusId_v2(pci, device)
}

/// `nvmlDeviceGetIndex`: of a MIG instance, on its card.
#[unsafe(no_mangle)]
pub extern "C" fn nvmlDeviceGetIndex(device: Device, index: Out<'_, u32>) -> Return {
    answer(|| {
        let spec = device.spec()?;
        put(index, spec.instance.unwrap_or(spec.index))
    })
}

/// `nvmlDeviceGetMinorNumber`.
#[unsafe(no_mangle)]
pub extern "C" fn nvmlDeviceGetMinorNumber(device: Device, minor: Out<'_, u32>) -> Return {
    answer(|| put(minor, device.spec()?.index))
}

/// `nvmlDeviceGetName`.
#[unsafe(no_mangle)]
pub extern "C" fn nvmlDeviceGetName(device: Device, text: TextOut, room: u32) -> Return {
    answer(|| text.put(&device.spec()?.name, room))
}

/// `nvmlDeviceGetUUID`.
#[unsafe(no_mangle)]
pub extern "C" fn nvmlDeviceGetUUID(device: Device, text: TextOut, room: u32) -> Return {
    answer(|| text.put(&device.spec()?.uuid_text(), room))
}

/// `nvmlDeviceGetCudaComputeCapability`.
#[unsafe(no_mangle)]
pub extern "C" fn nvmlDeviceGetCudaComputeCapability(
    device: Device,
    major: Out<'_, i32>,
    minor: Out<'_, i32>,
) -> Return {
    answer(|| {
        let (has_major, has_minor) = device.spec()?.compute_capability;
        put(major, has_major as i32)?;
        put(minor, has_minor as i32)
    })
}

/// `nvmlPciInfo_t`, from `nvmlDeviceGetPciInfo_v3` on: 68 bytes.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct PciInfo {
    legacy_bus_id: [u8; 16],
    domain: u32,
    bus: u32,
    device: u32,
    device_id: u32,
    subsystem_id: u32,
    bus_id: [u8; 32],
}

/// `nvmlPciInfo_v2_t` and its predecessor: 52 bytes, the last 16 unused.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct PciInfoV2 {
    bus_id: [u8; 16],
    domain: u32,
    bus: u32,
    device: u32,
    device_id: u32,
    subsystem_id: u32,
    reserved: [u32; 4],
}

fn padded<const N: usize>(text: &str) -> [u8; N] {
    let mut bytes = [0; N];
    for (to, from) in bytes[..N - 1].iter_mut().zip(text.bytes()) {
        *to = from;
    }
    bytes
}

/// `nvmlDeviceGetPciInfo_v3`.
#[unsafe(no_mangle)]
pub extern "C" fn nvmlDeviceGetPciInfo_v3(device: Device, pci: Out<'_, PciInfo>) -> Return {
    answer(|| {
        let spec = device.spec()?;
        put(
            pci,
            PciInfo {
                legacy_bus_id: padded(&spec.pci_text()),
                domain: 0,
                bus: spec.pci_bus(),
                device: 0,
                device_id: 0,
                subsystem_id: 0,
                bus_id: padded(&format!("0000{}", spec.pci_text())),
            },
        )
    })
}

/// `nvmlDeviceGetPciInfo_v2`.
#[unsafe(no_mangle)]
pub extern "C" fn nvmlDeviceGetPciInfo_v2(device: Device, pci: Out<'_, PciInfoV2>) -> Return {
    answer(|| {
        let spec = device.spec()?;
        put(
            pci,
            PciInfoV2 {
                bus_id: padded(&spec.pci_text()),
                domain: 0,
                bus: spec.pci_bus(),
                device: 0,
                device_id: 0,
                subsystem_id: 0,
                reserved: [0; 4],
            },
        )
    })
}

/// `nvmlDeviceGetPciInfo`.
#[unsafe(no_mangle)]
pub extern "C" fn nvmlDeviceGetPciInfo(device: Device, pci: Out<'_, PciInfoV2>) -> Return {
    nvmlDeviceGetPciInfo_v2(device, pci)
}

/// `nvmlUtilization_t`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Utilization {
    gpu: u32,
    memory: u32,
}

/// `nvmlDeviceGetUtilizationRates`: 0 %, because kernels do nothing.
#[unsafe(no_mangle)]
pub extern "C" fn nvmlDeviceGetUtilizationRates(
    device: Device,
    rates: Out<'_, Utilization>,
) -> Return {
    answer(|| {
        device.spec()?;
        put(rates, Utilization { gpu: 0, memory: 0 })
    })
}

macro_rules! figures_not_simulated {
    ($($name:ident)*) => {$(
        #[doc = concat!("`", stringify!($name), "`: `NOT_SUPPORTED`.")]
        #[unsafe(no_mangle)]
        pub extern "C" fn $name(device: Device) -> Return {
            not_supported(device)
        }
    )*};
}

figures_not_simulated! {
    nvmlDeviceGetTemperature
    nvmlDeviceGetPowerUsage
    nvmlDeviceGetClockInfo
    nvmlDeviceGetFanSpeed
    nvmlDeviceGetVirtualizationMode
    nvmlDeviceGetNumaNodeId
    nvmlDeviceGetBAR1MemoryInfo
}

pub(crate) fn not_supported(device: Device) -> Return {
    answer(|| {
        device.spec()?;
        Err(Return::NOT_SUPPORTED)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_structures_have_nvmls_sizes() {
        assert_eq!(size_of::<PciInfo>(), 68);
        assert_eq!(size_of::<PciInfoV2>(), 52);
    }
}
