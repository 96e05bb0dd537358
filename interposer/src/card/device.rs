//! NVML's devices by CUDA's ordinals.
//!
//! The two count differently: CUDA's ordinals depend on CUDA_VISIBLE_DEVICES, CUDA_DEVICE_ORDER and
//! MIG, NVML's on none of them. Both report the driver's UUID and the bus id.

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

/// A UUID in NVML's format, without its prefix.
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

/// NVML's device, if it was found before.
pub(super) fn known(ordinal: DeviceOrdinal) -> Option<&'static Device<'static>> {
    CARD.found.get(usize::from(ordinal.0))?.get()?.as_ref()
}

/// Looks for a device when it is first used. False if NVML does not have it.
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
