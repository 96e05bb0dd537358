//! Memory pools, and the questions that only the driver can answer.

use core::sync::atomic::{AtomicU64, Ordering};
use std::collections::BTreeMap;
use std::sync::Arc;

use gpumem_capture::DeviceOrdinal;

use super::reservations::{Kind, Reservation};

/// Memory pools that memory has come from.
#[derive(Debug, Default)]
pub(crate) struct Pools {
    pub(crate) all: BTreeMap<u64, Pool>,
    /// How many of them are destroyed.
    destroyed: u32,
    pub(crate) asked: Asked,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Pool {
    pub(crate) device: DeviceOrdinal,
    /// Destroyed while memory of it was live: the driver answers no more questions about it, and keeps what it holds
    /// until the last block of it is released.
    pub(crate) is_destroyed: bool,
}

impl Pools {
    pub(crate) fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    pub(crate) fn any_destroyed(&self) -> bool {
        self.destroyed != 0
    }

    /// Notes whether a pool is destroyed. Whether it is known and that is new.
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

    /// Nothing is known of a destroyed pool any more.
    pub(crate) fn forget(&mut self, handle: u64) {
        self.mark(handle, false);
        self.all.remove(&handle);
    }
}

/// Counts the questions so far. It is shared: whoever knows what to ask needs nothing else of the tracker.
#[derive(Clone, Debug, Default)]
pub struct Asked(Arc<AtomicU64>);

impl Asked {
    /// The question about the only thing that there is to ask about: see [`crate::Tracker::only_pool`].
    pub fn of_pool(&self, pool: u64, device: DeviceOrdinal) -> Questions {
        self.of(vec![(Kind::Pool.of(pool), device, None)])
    }

    pub(crate) fn of(&self, of: Vec<(Reservation, DeviceOrdinal, Option<u64>)>) -> Questions {
        let number = 1 + self.0.fetch_add(1, Ordering::SeqCst);
        Questions { number, of }
    }

    /// Whether nobody has asked since.
    pub(crate) fn is_last(&self, questions: &Questions) -> bool {
        self.0.load(Ordering::SeqCst) == questions.number
    }
}

/// What the driver is to be asked: what pools, and what the graphs of devices, hold now.
#[derive(Debug)]
pub struct Questions {
    number: u64,
    /// The reservations and their devices, and what each holds by the driver's word once it was asked; `None`: it does not
    /// answer.
    pub of: Vec<(Reservation, DeviceOrdinal, Option<u64>)>,
}
