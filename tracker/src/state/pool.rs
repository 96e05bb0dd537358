//! Memory pools, and the questions that only the driver can answer.

use std::collections::BTreeMap;

use gpumem_capture::DeviceOrdinal;

use super::reservations::Reservation;

/// Memory pools that memory has come from.
#[derive(Debug, Default)]
pub(crate) struct Pools {
    pub(crate) all: BTreeMap<u64, Pool>,
    /// Allocations from pools that are in progress: the driver may have given a block that is not live here yet.
    pub(crate) allocating: u32,
    /// Whether a destroyed pool is still known only because of those.
    pub(crate) kept: bool,
    /// Questions so far.
    pub(crate) asked: u64,
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
        !self.all.is_empty() && self.all.values().any(|pool| pool.is_destroyed)
    }
}

/// What the driver is to be asked: what pools, and what the graphs of devices, hold now.
#[derive(Debug)]
pub struct Questions {
    pub(crate) number: u64,
    /// The reservations and their devices, and what each holds by the driver's word once it was asked; `None`: it does not
    /// answer.
    pub of: Vec<(Reservation, DeviceOrdinal, Option<u64>)>,
}
