//! What is known of what NVML puts down to this process beyond what is explained.

use super::evidence::Trail;
use super::reservations::Reservation;

/// What is known of a device's residual.
#[derive(Debug, Default)]
pub(crate) struct Residual {
    pub(crate) evidence: Trail,
    /// What was left unexplained by the last reading without managed memory.
    pub(crate) base: i64,
    /// The same of the whole card's figure, where NVML does not tell this process's.
    pub(crate) base_of_card: Option<i64>,
    /// What the last whole context took.
    pub(crate) context_cost: Option<u64>,
    /// Free memory and explained bytes when the driver was last asked.
    pub(crate) asked: Option<(u64, u64)>,
    /// Whether a context or a module has ended since the last reading.
    pub(crate) has_ended: bool,
    /// Bytes of what has ended since the last reading and was charged by estimate: some may be another's, that is still there.
    pub(crate) ended_estimates: u64,
    /// What others used at the last reading.
    pub(crate) others: Option<u64>,
    /// The code that has functions, in contexts of this device: the newest last.
    pub(crate) code: Vec<(Reservation, u64)>,
}

pub(crate) fn signed(bytes: u64) -> i64 {
    i64::try_from(bytes).unwrap_or(i64::MAX)
}
