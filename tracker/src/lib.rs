//! What the card gave this process, as far as no single call says it: a pure state machine.
//!
//! | part | what it holds |
//! |---|---|
//! | [`Reservation`] | what grows and shrinks under one name: a pool, the graphs of a device, a context, a module |
//! | code | which function is of which library, and what a library is charged in each context |
//! | evidence | calls after which the card may have given or taken back what nobody asked for |
//! | residual | what a reading of NVML leaves unexplained, and whose it is |
//!
//! Nothing here asks, waits, locks or reads a clock. Callers pass what a call did or what a reading said;
//! what follows from it is queued as [`Resized`], in the order in which it is to be recorded.
//!
//! # How bytes that no call asks for are found
//!
//! A context, the code of a module and a larger stack take memory that no call names. Calls leave evidence
//! of them and change no figure. A [`Reading`] does: what NVML puts down to this process, less what the
//! physical level explains, is the *residual*. What it grew by since the last reading is charged to whoever
//! left evidence in between. So `explained + unexplained = NVML's figure` at every reading that is taken.
//!
//! With one piece of evidence in an interval its owner has all of the difference, exactly. With more, those
//! with a weight have theirs and the one without has the rest; where that does not tell them apart, the sum
//! is exact and the shares are marked as estimated.

#![forbid(unsafe_code)]

mod calls;
mod change;
mod code;
mod ends;
mod evidence;
mod reservations;
mod residual;

use std::collections::{BTreeMap, VecDeque};

use gpumem_capture::DeviceOrdinal;

pub use calls::FunctionOf;
pub use change::{Origin, Resized};
pub use ends::Ended;
pub use reservations::{Kind, Reservation};
pub use residual::{Reading, Ticket, Verdict};

use code::Code;
use reservations::Reservations;
use residual::Residual;

/// The state machine.
#[derive(Debug, Default)]
pub struct Tracker {
    reservations: Reservations,
    code: Code,
    /// The contexts that were seen and have not ended.
    contexts: BTreeMap<u64, DeviceOrdinal>,
    devices: BTreeMap<u8, Residual>,
    /// Transitions so far.
    changes: u64,
    /// Whether memory was handed to other processes, which may keep it on the card after its release here.
    handed_out: bool,
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

    fn residual(&mut self, device: DeviceOrdinal) -> &mut Residual {
        self.devices.entry(device.0).or_default()
    }

    fn resize(
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
