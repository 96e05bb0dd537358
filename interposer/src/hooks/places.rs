//! The places of pools and physical handles: a device's own memory, host memory, or managed memory.
//!
//! A location's id is a device's ordinal only for the type DEVICE: it may also be the number of a NUMA node.

use gpumem_capture::{DeviceOrdinal, EventFlags, Level};
use gpumem_cuda_abi::{
    ALLOCATION_MANAGED, CuDevice, CuMemLocation, CuMemLocationType, CuMemoryPool,
};
use gpumem_tracker::{Interest, Place};

use crate::limit::Takes;
use crate::{driver, session, tracked};

/// The place of memory with these properties: `CUmemAllocationType` and location. The device of a location of an
/// unknown type is unknown.
pub(super) fn of(allocation: u32, location: CuMemLocation) -> Place {
    let device = match location.kind {
        CuMemLocationType::DEVICE => driver::ordinal(CuDevice(location.id)),
        _ => DeviceOrdinal::NONE,
    };
    match allocation {
        ALLOCATION_MANAGED => Place::Managed(device),
        _ if location.kind.is_host() => Place::Host,
        _ => Place::Device(device),
    }
}

/// The place of a pool: from the call that created it; if that was not observed, as the driver reports it.
pub(super) fn of_pool(pool: CuMemoryPool) -> Option<Place> {
    let handle = pool.0 as u64;
    let session = session::session();
    if let Some(device) = session.and_then(|open| tracked::only_pool(open, handle)) {
        return Some(Place::Device(device));
    }
    let known = session.and_then(|open| tracked::look(open, |tracker| tracker.pool_place(handle)));
    if known.is_some() {
        return known;
    }
    let Some((allocation, location)) = driver::pool_location(pool) else {
        return session.and_then(|open| tracked::look(open, |tracker| tracker.last_place(handle)));
    };
    let place = of(allocation, location);
    if let (Some(open), Place::Host | Place::Managed(_)) = (session, place) {
        tracked::apply(open, |tracker| tracker.pool_elsewhere(handle, place));
    }
    Some(place)
}

/// The place of the pool that memory came from. If the caller did not name a pool, it is the current one of the
/// stream's device: a device's own, unless the program has used pools elsewhere.
pub(super) fn of_source(named: CuMemoryPool, pool: CuMemoryPool) -> Option<Place> {
    let any =
        || session::session().is_some_and(|open| open.interest().has(Interest::POOLS_ELSEWHERE));
    (!pool.is_null() && (!named.is_null() || any()))
        .then(|| of_pool(pool))
        .flatten()
}

/// How memory of a place is recorded: its level, its device if that is known, and the flags of its kind.
pub(super) fn recorded_as(place: Place) -> (Level, Option<DeviceOrdinal>, EventFlags) {
    let if_known = |device| (device != DeviceOrdinal::NONE).then_some(device);
    match place {
        Place::Device(device) => (Level::DRIVER, if_known(device), EventFlags::NONE),
        Place::Host => (Level::HOST, Some(DeviceOrdinal::NONE), EventFlags::NONE),
        Place::Managed(device) => (Level::DRIVER, if_known(device), EventFlags::MANAGED),
    }
}

/// The device memory that `bytes` of a place may take; `device`: the device, if the place does not name one.
pub(super) fn taken(
    place: Option<Place>,
    bytes: usize,
    device: impl FnOnce() -> DeviceOrdinal,
) -> Takes {
    match place {
        Some(Place::Host) => Takes::nothing(),
        Some(Place::Device(named) | Place::Managed(named)) if named != DeviceOrdinal::NONE => {
            Takes::on(named, bytes as u64)
        }
        _ => Takes::on(device(), bytes as u64),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_is_a_devices_only_if_the_type_says_so() {
        use CuMemLocationType as Type;
        let at = |kind, id| CuMemLocation { kind, id };
        let one = DeviceOrdinal(1);
        assert_eq!(of(1, at(Type::DEVICE, 1)), Place::Device(one));
        for kind in [Type::HOST, Type::HOST_NUMA, Type::HOST_NUMA_CURRENT] {
            assert_eq!(of(1, at(kind, 1)), Place::Host);
            assert_eq!(of(2, at(kind, 1)), Place::Managed(DeviceOrdinal::NONE));
        }
        assert_eq!(of(2, at(Type::DEVICE, 1)), Place::Managed(one));
        assert_eq!(
            of(2, at(Type::NONE, 0)),
            Place::Managed(DeviceOrdinal::NONE)
        );
        assert_eq!(of(1, at(Type(6), 1)), Place::Device(DeviceOrdinal::NONE));
    }
}
