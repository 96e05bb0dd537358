//! Memory of graphs: addresses that allocation nodes have for good, and the pages behind them.
//!
//! The model: an allocation node gets its address when it is made, and no memory. Memory is live
//! from a launch that runs the node until it is freed. The device keeps pages for all its graphs
//! together: a launch or an upload makes them as many as what is live and what the graph has live
//! at its worst need (in steps of 512 bytes, pieces of 32 MiB over all, and whole pages where those do
//! not fit). They stay when memory is freed, and go with `cuDeviceGraphMemTrim`, when an allocation
//! elsewhere would otherwise fail, and with the device's last context. All of them count as used.

use super::pool::{CHUNK_BYTES, HighWater};
use std::collections::BTreeMap;

/// Step in which live bytes are counted against pages.
pub(crate) const STEP: u64 = 512;

/// Who frees an allocation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Freed {
    /// The program, or a later launch with `AUTO_FREE_ON_LAUNCH`.
    Outside,
    /// A node of the same graph.
    Inside,
    /// A node of another graph.
    Elsewhere,
}

/// What an allocation node gives.
#[derive(Clone, Debug)]
pub struct Reserved {
    /// The device.
    pub device: usize,
    /// Bytes that were asked for.
    pub bytes: u64,
    /// Who frees it.
    pub freed: Freed,
    /// The graph whose node it is.
    pub graph: usize,
    /// The graph, executables, and being live: with none left the address is given back.
    pub(crate) holders: usize,
}

/// What a device keeps for graphs.
#[derive(Clone, Copy, Debug, Default)]
pub struct DeviceMemory {
    /// Pages.
    pub reserved: HighWater,
    /// What the driver calls used: the same, with a mark of its own.
    pub used: HighWater,
    /// Live bytes, in steps.
    pub(crate) live: u64,
    /// Bytes that launches which are under way may yet have live.
    pub(crate) promised: u64,
}

impl DeviceMemory {
    pub(crate) fn grow(&mut self, bytes: u64) {
        self.reserved.add(bytes);
        self.used.add(bytes);
    }

    pub(crate) fn shrink(&mut self, bytes: u64) {
        self.reserved.remove(bytes);
        self.used.remove(bytes);
    }
}

/// All of it.
#[derive(Debug)]
pub struct GraphMemory {
    /// By address.
    pub addresses: BTreeMap<u64, Reserved>,
    /// By device.
    pub devices: Vec<DeviceMemory>,
}

impl GraphMemory {
    /// None yet.
    pub fn new(devices: usize) -> Self {
        Self {
            addresses: BTreeMap::new(),
            devices: vec![DeviceMemory::default(); devices],
        }
    }

    /// Pages that the device keeps and nobody uses.
    pub fn unused_bytes(&self, device: usize, page: u64) -> u64 {
        let kept = &self.devices[device];
        let needed = (kept.live + kept.promised).next_multiple_of(CHUNK_BYTES.max(page));
        kept.reserved.current.saturating_sub(needed)
    }
}

/// The most that a launch has live on each device.
pub type Worst = BTreeMap<usize, u64>;
