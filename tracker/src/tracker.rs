//! The state, and what every transition does to it.

use std::collections::{BTreeMap, VecDeque};

use gpumem_capture::DeviceOrdinal;

use crate::change::{Origin, Resized};
use crate::code::Code;
use crate::reservations::{Kind, Reservation, Reservations};
use crate::residual::Residual;

/// The state machine.
#[derive(Debug, Default)]
pub struct Tracker {
    pub(crate) reservations: Reservations,
    pub(crate) code: Code,
    /// The contexts that were seen and have not ended.
    pub(crate) contexts: BTreeMap<u64, DeviceOrdinal>,
    pub(crate) devices: BTreeMap<u8, Residual>,
    /// Transitions so far.
    pub(crate) changes: u64,
    /// Whether memory was handed to other processes, which may keep it on the card after its release here.
    pub(crate) handed_out: bool,
    unwritten: VecDeque<Resized>,
}

impl Tracker {
    /// Nothing is reserved and nothing is known.
    pub const fn new() -> Self {
        Self {
            reservations: Reservations::new(),
            code: Code::new(),
            contexts: BTreeMap::new(),
            devices: BTreeMap::new(),
            changes: 0,
            handed_out: false,
            unwritten: VecDeque::new(),
        }
    }

    /// The oldest change that is not recorded yet.
    pub fn unwritten(&self) -> Option<&Resized> {
        self.unwritten.front()
    }

    /// The oldest change is recorded, or given up.
    pub fn written(&mut self) {
        self.unwritten.pop_front();
    }

    /// Bytes of a reservation.
    pub fn bytes(&self, reservation: Reservation) -> u64 {
        self.reservations.bytes(reservation)
    }

    /// Bytes of all reservations of a kind on a device.
    pub fn bytes_of(&self, device: DeviceOrdinal, kind: Kind) -> u64 {
        let all = self.reservations.of_device(device);
        all.filter(|(reservation, _)| reservation.kind == kind)
            .map(|(_, bytes)| bytes)
            .sum()
    }

    /// The only context that there is.
    pub fn only_context(&self) -> Option<(u64, DeviceOrdinal)> {
        let mut all = self.contexts.iter();
        let only = all.next().filter(|_| all.next().is_none());
        only.map(|(context, device)| (*context, *device))
    }

    /// The device of a context that was seen and has not ended.
    pub fn device_of(&self, context: u64) -> Option<DeviceOrdinal> {
        self.contexts.get(&context).copied()
    }

    /// Whether any context was seen on a device and has not ended.
    pub fn has_context(&self, device: DeviceOrdinal) -> bool {
        self.contexts.values().any(|of| *of == device)
    }

    /// The driver says what a pool, or the graphs of a device, hold now; 0: it is gone.
    pub fn reserved(
        &mut self,
        device: DeviceOrdinal,
        reservation: Reservation,
        bytes: u64,
        origin: Origin,
    ) {
        if bytes == 0
            && let Some(residual) = self.devices.get_mut(&device.0)
        {
            residual.evidence.forget(|one| one.owner == reservation);
        }
        self.resize(device, reservation, bytes, false, origin);
    }

    /// Memory was handed to other processes.
    pub fn handed_out(&mut self) {
        self.handed_out = true;
    }

    pub(crate) fn residual(&mut self, device: DeviceOrdinal) -> &mut Residual {
        self.devices.entry(device.0).or_default()
    }

    pub(crate) fn resize(
        &mut self,
        device: DeviceOrdinal,
        reservation: Reservation,
        to: u64,
        estimated: bool,
        origin: Origin,
    ) {
        self.changes += 1;
        let estimate = estimated.then_some(self.changes);
        let from = self.reservations.resize(device, reservation, to, estimate);
        if from != to {
            self.unwritten.push_back(Resized {
                device,
                reservation,
                from,
                to,
                estimated,
                origin,
            });
        }
    }
}
