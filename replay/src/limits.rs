//! Limits below the memory of the card.

use gpumem_capture::{DeviceOrdinal, EventFlags, ProcessKey};

use crate::failures::OutOfMemory;
use crate::replay::Replay;

impl Replay {
    /// The limit that was set last for a device, in bytes; `None` if there was none, or if it is not below the card's
    /// memory.
    pub fn limit_of(&self, device: DeviceOrdinal) -> Option<u64> {
        let limit = of_device(self.names.fact(ProcessKey::LIMIT)?, device.0)?;
        let card = self.names.devices.get(&device);
        card.is_none_or(|card| limit < card.total_bytes)
            .then_some(limit)
    }

    /// The reserved plus the free bytes of a device when PyTorch's allocator ran out of memory, if the card is not
    /// known.
    pub fn room_of(&self, device: DeviceOrdinal) -> Option<u64> {
        of_device(self.names.fact(ProcessKey::ALLOCATOR_ROOM)?, device.0)
    }
}

impl OutOfMemory {
    /// Whether the card had enough memory, but beyond the process's limit.
    pub fn is_by_limit(&self) -> bool {
        self.event.flags.contains(EventFlags::LIMIT)
    }
}

/// The value for a device in a fact such as `8589934592` or `0=8589934592,1=17179869184`.
fn of_device(fact: &str, device: u8) -> Option<u64> {
    let of = |part: &str| match part.split_once('=') {
        None => part.parse().ok(),
        Some((named, bytes)) if named.parse() == Ok(device) => bytes.parse().ok(),
        Some(_) => None,
    };
    fact.split(',').find_map(of)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fact_names_devices_or_means_all() {
        assert_eq!(of_device("4096", 3), Some(4096));
        assert_eq!(of_device("0=1,3=4096", 3), Some(4096));
        assert_eq!(of_device("0=1,13=4096", 3), None);
        assert_eq!(of_device("", 0), None);
        assert_eq!(of_device("3=x", 3), None);
    }
}
