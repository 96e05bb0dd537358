//! NVML's devices by CUDA's ordinals.
//!
//! The two count differently: CUDA's numbers go by CUDA_VISIBLE_DEVICES, CUDA_DEVICE_ORDER and MIG,
//! NVML's by none of them. What both know is the UUID that the driver itself tells, and the bus.

use gpumem_capture::DeviceOrdinal;
use nvml_wrapper::{Device, Nvml};

use super::library;
use super::state::{CARD, Identity};
use crate::driver::DeviceFacts;

impl Identity {
    pub(super) fn of(facts: &DeviceFacts) -> Self {
        let bus = String::from_utf8(facts.pci.bytes().to_vec()).ok();
        Self {
            uuid: facts.uuid,
            bus: bus.filter(|bus| !bus.is_empty()),
        }
    }
}

/// A UUID as NVML writes it, less its prefix.
pub(super) fn text(uuid: &[u8; 16]) -> String {
    let mut text = String::with_capacity(36);
    for (place, byte) in uuid.iter().enumerate() {
        if matches!(place, 4 | 6 | 8 | 10) {
            text.push('-');
        }
        text.push_str(&format!("{byte:02x}"));
    }
    text
}

/// NVML's device, as far as it was looked for.
pub(super) fn known(ordinal: DeviceOrdinal) -> Option<&'static Device<'static>> {
    CARD.found.get(usize::from(ordinal.0))?.get()?.as_ref()
}

/// Looks for a device, the first time that it is named. False if NVML does not know it.
pub(super) fn find(nvml: &'static Nvml, ordinal: DeviceOrdinal, identity: &Identity) -> bool {
    let Some(place) = CARD.found.get(usize::from(ordinal.0)) else {
        return false;
    };
    if place.get().is_none() {
        let _ = place.set(look(nvml, identity));
    }
    place.get().is_some_and(Option::is_some)
}

fn look(nvml: &'static Nvml, identity: &Identity) -> Option<Device<'static>> {
    let uuid = text(&identity.uuid);
    let by_uuid = |prefix: &str| {
        library::opened()?;
        nvml.device_by_uuid(format!("{prefix}-{uuid}")).ok()
    };
    let by_bus = || {
        library::opened()?;
        nvml.device_by_pci_bus_id(identity.bus.as_deref()?).ok()
    };
    by_uuid("GPU").or_else(|| by_uuid("MIG")).or_else(by_bus)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_uuid_reads_as_nvml_writes_it() {
        let uuid = core::array::from_fn(|i| i as u8 * 0x11);
        assert_eq!(text(&uuid), "00112233-4455-6677-8899-aabbccddeeff");
    }
}
