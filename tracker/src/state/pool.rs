//! Memory pools, and queries that only the driver can answer.

use core::sync::atomic::{AtomicU64, Ordering};
use std::collections::BTreeMap;
use std::sync::Arc;

use gpumem_capture::DeviceOrdinal;

use super::reservations::{Kind, Reservation};

/// The place of a pool's memory, or of a physical handle's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// A device's own memory.
    Device(DeviceOrdinal),
    /// Pinned host memory.
    Host,
    /// Managed memory, and the device that it prefers: only the driver knows where it resides.
    Managed(DeviceOrdinal),
}

/// Memory pools that memory has come from.
#[derive(Debug, Default)]
pub(crate) struct Pools {
    pub(crate) all: BTreeMap<u64, Pool>,
    /// Pools whose memory is not a device's own.
    elsewhere: BTreeMap<u64, Elsewhere>,
    /// The number of destroyed pools among them.
    destroyed: u32,
    pub(crate) asked: Asked,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Pool {
    pub(crate) device: DeviceOrdinal,
    /// Destroyed while memory of it was live: the driver answers no further queries about it, and keeps its memory
    /// until its last block is released.
    pub(crate) is_destroyed: bool,
}

#[derive(Clone, Copy, Debug)]
struct Elsewhere {
    place: Place,
    is_destroyed: bool,
}

impl Pools {
    /// The place of an existing pool, if it is known.
    pub(crate) fn place(&self, handle: u64) -> Option<Place> {
        if let Some(known) = self.elsewhere.get(&handle).filter(|one| !one.is_destroyed) {
            return Some(known.place);
        }
        let known = self.all.get(&handle).filter(|pool| !pool.is_destroyed)?;
        Some(Place::Device(known.device))
    }

    /// The place of a destroyed pool outside devices.
    pub(crate) fn last_place(&self, handle: u64) -> Option<Place> {
        self.elsewhere.get(&handle).map(|one| one.place)
    }

    pub(crate) fn any_elsewhere(&self) -> bool {
        !self.elsewhere.is_empty()
    }

    /// Records the place of an existing pool.
    pub(crate) fn put(&mut self, handle: u64, place: Place) {
        let is_destroyed = false;
        let new = Elsewhere {
            place,
            is_destroyed,
        };
        match place {
            Place::Device(_) => self.elsewhere.remove(&handle),
            _ => self.elsewhere.insert(handle, new),
        };
    }

    /// Sets whether a pool outside devices is destroyed. Returns whether this changed.
    pub(crate) fn mark_elsewhere(&mut self, handle: u64, is_destroyed: bool) -> bool {
        let known = self.elsewhere.get_mut(&handle);
        known.is_some_and(|one| {
            core::mem::replace(&mut one.is_destroyed, is_destroyed) != is_destroyed
        })
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    pub(crate) fn any_destroyed(&self) -> bool {
        self.destroyed != 0
    }

    /// Sets whether a pool is destroyed. Returns whether it is known and this changed.
    pub(crate) fn mark(&mut self, handle: u64, is_destroyed: bool) -> bool {
        match self.all.get_mut(&handle) {
            Some(known) if known.is_destroyed != is_destroyed => known.is_destroyed = is_destroyed,
            _ => return false,
        }
        match is_destroyed {
            true => self.destroyed += 1,
            false => self.destroyed -= 1,
        }
        true
    }

    /// Forgets a destroyed pool.
    pub(crate) fn forget(&mut self, handle: u64) {
        self.mark(handle, false);
        self.all.remove(&handle);
    }
}

/// Counts the queries. It is shared, so that queries can be created without access to the tracker.
#[derive(Clone, Debug, Default)]
pub struct Asked(Arc<AtomicU64>);

impl Asked {
    /// The query of a single pool: see [`crate::Tracker::only_pool`].
    pub fn of_pool(&self, pool: u64, device: DeviceOrdinal) -> Questions {
        self.of(vec![(Kind::Pool.of(pool), device, None)])
    }

    pub(crate) fn of(&self, of: Vec<(Reservation, DeviceOrdinal, Option<u64>)>) -> Questions {
        let number = 1 + self.0.fetch_add(1, Ordering::SeqCst);
        Questions { number, of }
    }

    /// Whether there was no query since.
    pub(crate) fn is_last(&self, questions: &Questions) -> bool {
        self.0.load(Ordering::SeqCst) == questions.number
    }
}

/// Queries for the driver: the current sizes of pools and of the graphs of devices.
#[derive(Debug)]
pub struct Questions {
    number: u64,
    /// The reservations with their devices, and the size of each as reported by the driver; `None` if it is not
    /// reported.
    pub of: Vec<(Reservation, DeviceOrdinal, Option<u64>)>,
}
