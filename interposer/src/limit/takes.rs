//! The memory that a call may take from a card.

use std::collections::BTreeMap;

use gpumem_capture::DeviceOrdinal;
use gpumem_cuda_abi::CuDevice;

use crate::driver;

/// The maximum for a call with implicit memory: code, stacks, a graph's own.
const UNKNOWN: u64 = 256 << 20;
/// The maximum for a stream: 4 MiB were seen on an H100.
const STREAM: u64 = 8 << 20;
/// The maximum for a context.
pub(super) const CONTEXT: u64 = 1 << 30;
/// The maximum memory that a call may take, by device.
#[derive(Clone, Debug, Default)]
pub(crate) struct Takes(pub(super) BTreeMap<u8, u64>);

impl Takes {
    /// This many bytes of the current context's device.
    pub(crate) fn here(bytes: u64) -> Self {
        Self::on(driver::current_device(), bytes)
    }

    /// This many bytes of a device.
    pub(crate) fn on(device: DeviceOrdinal, bytes: u64) -> Self {
        Self(BTreeMap::from([(device.0, bytes)]))
    }

    /// Adds this many bytes of a device.
    pub(super) fn and(mut self, device: DeviceOrdinal, bytes: u64) -> Self {
        let of_device = self.0.entry(device.0).or_insert(0);
        *of_device = of_device.saturating_add(bytes);
        self
    }

    /// Rows of this many bytes each, which the driver pads.
    pub(crate) fn rows(width: u64, height: u64) -> Self {
        Self::here(width.saturating_add(512).saturating_mul(height))
    }

    /// Implicit memory on the current context's device.
    pub(crate) fn unknown() -> Self {
        Self::here(UNKNOWN)
    }

    /// Implicit memory, in addition to these bytes of devices.
    pub(crate) fn unknown_and(all: BTreeMap<u8, u64>) -> Self {
        Self(all).and(driver::current_device(), UNKNOWN)
    }

    /// A context of a device.
    pub(crate) fn context(device: CuDevice) -> Self {
        Self::on(driver::ordinal(device), CONTEXT)
    }

    /// A stream.
    pub(crate) fn stream() -> Self {
        Self::here(STREAM)
    }

    /// The memory for a context's limits.
    pub(crate) fn context_limit() -> Self {
        Self::here(CONTEXT)
    }

    /// Nothing.
    pub(crate) fn nothing() -> Self {
        Self::default()
    }
}
