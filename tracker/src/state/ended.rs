//! Reservations that ended with a module or a context, kept in case the call fails.

use gpumem_capture::DeviceOrdinal;

use super::code::Loaded;
use super::evidence::Evidence;
use super::reservations::Reservation;

/// The ended state, to be restored if the call fails.
#[derive(Debug)]
pub(crate) struct Ended {
    pub(crate) all: Vec<EndedReservation>,
    pub(crate) evidence: Vec<(u8, Vec<Evidence>)>,
}

#[derive(Debug)]
pub(crate) struct EndedReservation {
    pub(crate) device: DeviceOrdinal,
    pub(crate) reservation: Reservation,
    pub(crate) bytes: u64,
    pub(crate) loaded: Option<Loaded>,
}
