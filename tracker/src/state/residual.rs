//! The state of a device's residual: NVML's figure for this process minus what is explained.

use super::evidence::Trail;
use super::reservations::Reservation;

/// The state of a device's residual.
#[derive(Debug, Default)]
pub(crate) struct Residual {
    pub(crate) evidence: Trail,
    /// The unexplained bytes of the last reading without managed memory.
    pub(crate) base: i64,
    /// The same for the whole card's figure, where NVML does not report this process's figure.
    pub(crate) base_of_card: Option<i64>,
    /// The bytes that the last whole context took.
    pub(crate) context_cost: Option<u64>,
    /// Free memory and explained bytes at the last query of the driver.
    pub(crate) asked: Option<(u64, u64)>,
    /// Whether a context or a module has ended since the last reading.
    pub(crate) has_ended: bool,
    /// Bytes charged by estimate to owners that have ended since the last reading: some may belong to an owner that
    /// still exists.
    pub(crate) ended_estimates: u64,
    /// The bytes that other processes used at the last reading.
    pub(crate) others: Option<u64>,
    /// The code with functions in contexts of this device, the newest last.
    pub(crate) code: Vec<(Reservation, u64)>,
}

pub(crate) fn signed(bytes: u64) -> i64 {
    i64::try_from(bytes).unwrap_or(i64::MAX)
}
