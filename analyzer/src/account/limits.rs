//! Limits that made cards look smaller than they are.

use gpumem_capture::{DeviceOrdinal, EventFlags, ProcessKey};

use crate::replay::{OutOfMemory, Replay};

/// The limit that was set for a device last, in bytes; `None` if there was none, or the card has no more than
/// that anyway.
pub fn limit_of(replay: &Replay, device: DeviceOrdinal) -> Option<u64> {
    let limit = asked(replay.names.fact(ProcessKey::LIMIT)?, device.0)?;
    let card = replay.names.devices.get(&device);
    card.is_none_or(|card| limit < card.total_bytes)
        .then_some(limit)
}

/// What PyTorch's allocator had of a device and could have had when it failed for want of memory, where the card is not
/// known.
pub fn room_of(replay: &Replay, device: DeviceOrdinal) -> Option<u64> {
    asked(replay.names.fact(ProcessKey::ALLOCATOR_ROOM)?, device.0)
}

/// What a fact says of a device: `8589934592`, `0=8589934592,1=17179869184`.
fn asked(fact: &str, device: u8) -> Option<u64> {
    let of = |part: &str| match part.split_once('=') {
        None => part.parse().ok(),
        Some((named, bytes)) if named.parse() == Ok(device) => bytes.parse().ok(),
        Some(_) => None,
    };
    fact.split(',').find_map(of)
}

/// Whether an allocation failed although the card had as much: for its limit.
pub fn is_by_limit(failure: &OutOfMemory) -> bool {
    failure.event.flags.contains(EventFlags::LIMIT)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fact_names_devices_or_means_all() {
        assert_eq!(asked("4096", 3), Some(4096));
        assert_eq!(asked("0=1,3=4096", 3), Some(4096));
        assert_eq!(asked("0=1,13=4096", 3), None);
        assert_eq!(asked("", 0), None);
        assert_eq!(asked("3=x", 3), None);
    }
}
