//! What a pool, or the graphs of a device, hold by the driver's word.

use gpumem_capture::DeviceOrdinal;
use gpumem_tracker::Reservation;

/// What one holds.
pub(super) struct Figure {
    pub(super) reservation: Reservation,
    pub(super) device: DeviceOrdinal,
    /// `None`: it is gone.
    pub(super) bytes: Option<u64>,
}
