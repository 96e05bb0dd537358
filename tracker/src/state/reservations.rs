//! Reservations: bytes that grow and shrink under one name.

use std::collections::BTreeMap;

use gpumem_capture::{DeviceOrdinal, EventFlags};

/// The key of a reservation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Reservation {
    /// Its kind.
    pub kind: Kind,
    /// Its handle: see [`gpumem_capture::EventKind::RESIZE`].
    pub handle: u64,
}

/// The kind of a reservation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// A memory pool.
    Pool,
    /// The memory behind the graphs of a device; the handle is 1 + the device's ordinal.
    Graphs,
    /// A context, with its limits.
    Context,
    /// A module or library of kernels.
    Module,
    /// The streams of a context; the handle is the context's with the lowest bit set.
    Streams,
}

impl Kind {
    /// The reservation of that kind and handle.
    pub const fn of(self, handle: u64) -> Reservation {
        Reservation { kind: self, handle }
    }

    /// The reservation of a context's streams.
    pub const fn streams_of(context: u64) -> Reservation {
        Self::Streams.of(context | 1)
    }

    pub(crate) fn flags(self) -> EventFlags {
        match self {
            Self::Pool => EventFlags::STREAM_ORDERED,
            Self::Graphs => EventFlags::GRAPH,
            Self::Context => EventFlags::CONTEXT,
            Self::Module => EventFlags::MODULE,
            Self::Streams => EventFlags::CONTEXT.with(EventFlags::STREAM_ORDERED),
        }
    }
}

#[derive(Clone, Copy, Debug)]
struct Size {
    device: DeviceOrdinal,
    bytes: u64,
    /// The change that last estimated some of it; 0 if no part is an estimate.
    estimate: u64,
}

/// The reservations that are not empty.
#[derive(Debug, Default)]
pub(crate) struct Reservations(BTreeMap<Reservation, Size>);

impl Reservations {
    pub(crate) fn bytes(&self, reservation: Reservation) -> u64 {
        self.0.get(&reservation).map_or(0, |held| held.bytes)
    }

    /// The device of a reservation that is not empty.
    pub(crate) fn device(&self, reservation: Reservation) -> Option<DeviceOrdinal> {
        self.0.get(&reservation).map(|held| held.device)
    }

    pub(crate) fn of_device(
        &self,
        device: DeviceOrdinal,
    ) -> impl Iterator<Item = (Reservation, u64)> {
        let here = move |held: &Size| held.device == device;
        self.0
            .iter()
            .filter(move |(_, held)| here(held))
            .map(|(reservation, held)| (*reservation, held.bytes))
    }

    /// The reservations of a device with an estimated part, the newest estimate first.
    pub(crate) fn estimated(&self, device: DeviceOrdinal) -> Vec<Reservation> {
        let mut all: Vec<(u64, Reservation)> = self
            .0
            .iter()
            .filter(|(_, held)| held.device == device && held.estimate != 0)
            .map(|(reservation, held)| (held.estimate, *reservation))
            .collect();
        all.sort_unstable_by(|a, b| b.cmp(a));
        all.into_iter()
            .map(|(_, reservation)| reservation)
            .collect()
    }

    /// Whether a part of a reservation was estimated.
    pub(crate) fn is_estimated(&self, reservation: Reservation) -> bool {
        let held = self.0.get(&reservation);
        held.is_some_and(|held| held.estimate != 0)
    }

    /// Sets a size; returns the previous one. An estimate is numbered by its change.
    pub(crate) fn resize(
        &mut self,
        device: DeviceOrdinal,
        reservation: Reservation,
        bytes: u64,
        estimate: Option<u64>,
    ) -> u64 {
        let before = self.0.get(&reservation).copied();
        let estimate = estimate.or(before.map(|held| held.estimate)).unwrap_or(0);
        if bytes == 0 {
            self.0.remove(&reservation);
        } else {
            let held = Size {
                device,
                bytes,
                estimate,
            };
            self.0.insert(reservation, held);
        }
        before.map_or(0, |held| held.bytes)
    }
}
