//! Memory of graphs: the permanent addresses of allocation nodes, and the pages behind them.
//!
//! The model: an allocation node gets its address, but no memory, when it is added. Memory is live
//! from a launch that runs the node until it is freed. The device keeps pages for all its graphs
//! together. A launch or an upload increases them to the live memory plus the peak of the launch
//! (in steps of 512 bytes; pages are taken 32 MiB at a time, or one by one if that does not fit).
//! The pages stay when memory is freed. They are freed by `cuDeviceGraphMemTrim`, when an
//! allocation elsewhere would otherwise fail, and with the device's last context. All of them count
//! as used.

use super::pool::{CHUNK_BYTES, HighWater};
use std::collections::BTreeMap;

/// Live bytes are rounded up to this step.
pub(crate) const STEP: u64 = 512;

/// Where an allocation is freed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Freed {
    /// By the program, or by a later launch with `AUTO_FREE_ON_LAUNCH`.
    Outside,
    /// By a node of the same graph.
    Inside,
    /// By a node of another graph.
    Elsewhere,
}

/// The allocation of an allocation node.
#[derive(Clone, Debug)]
pub struct Reserved {
    /// The device.
    pub device: usize,
    /// Requested bytes.
    pub bytes: u64,
    /// Where it is freed.
    pub freed: Freed,
    /// The graph of the node.
    pub graph: usize,
    /// The number of its users: the graph, executables, and being live. At 0 the address is freed.
    pub(crate) holders: usize,
}

/// Memory that a device keeps for graphs.
#[derive(Clone, Copy, Debug, Default)]
pub struct DeviceMemory {
    /// Pages.
    pub reserved: HighWater,
    /// The driver's `used` attribute: the same bytes, with a separate peak.
    pub used: HighWater,
    /// Live bytes, in steps.
    pub(crate) live: u64,
    /// Bytes that launches in progress may still allocate.
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

/// Memory of all graphs.
#[derive(Debug)]
pub struct GraphMemory {
    /// By address.
    pub addresses: BTreeMap<u64, Reserved>,
    /// By device.
    pub devices: Vec<DeviceMemory>,
}

impl GraphMemory {
    /// No memory, for this number of devices.
    pub fn new(devices: usize) -> Self {
        Self {
            addresses: BTreeMap::new(),
            devices: vec![DeviceMemory::default(); devices],
        }
    }

    /// Pages that the device keeps without using them.
    pub fn unused_bytes(&self, device: usize, page: u64) -> u64 {
        let kept = &self.devices[device];
        let needed = (kept.live + kept.promised).next_multiple_of(CHUNK_BYTES.max(page));
        kept.reserved.current.saturating_sub(needed)
    }
}

/// The peak of a launch's live bytes on each device.
pub type Worst = BTreeMap<usize, u64>;
