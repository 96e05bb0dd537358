//! The state, and the events that are to be recorded of it.

use std::collections::{BTreeMap, VecDeque};

use gpumem_capture::{DeviceOrdinal, Event, EventFlags, EventKind, Level, Seq};

use crate::state::alias::Opened;
use crate::state::block::Blocks;
use crate::state::code::Code;
use crate::state::context::Context;
use crate::state::graph::Graphs;
use crate::state::handle::{Binding, Handle, Mapping};
use crate::state::origin::Origin;
use crate::state::pages::Pages;
use crate::state::pending::{Number, Pending, Undo};
use crate::state::pool::Pools;
use crate::state::reservations::{Kind, Reservation, Reservations};
use crate::state::residual::Residual;

/// The state machine.
#[derive(Debug, Default)]
pub struct Tracker {
    pub(crate) blocks: Blocks,
    pub(crate) pages: Pages,
    /// By address, or by handle where the thing has none.
    pub(crate) aliases: BTreeMap<u64, Opened>,
    pub(crate) handles: BTreeMap<u64, Handle>,
    /// By first address.
    pub(crate) mappings: BTreeMap<u64, Mapping>,
    /// The handles that are bound to multicast objects.
    pub(crate) bindings: BTreeMap<Binding, u64>,
    /// Ranges of addresses: how large each is, by the first one.
    addresses: BTreeMap<u64, u64>,
    pub(crate) contexts: BTreeMap<u64, Context>,
    /// How many of them are inactive.
    pub(crate) inactive: usize,
    /// Contexts that have ended so far.
    pub(crate) context_ends: u64,
    /// Green contexts and their devices.
    pub(crate) parts: BTreeMap<u64, DeviceOrdinal>,
    pub(crate) pools: Pools,
    pub(crate) graphs: Graphs,
    pub(crate) reservations: Reservations,
    pub(crate) code: Code,
    pub(crate) devices: BTreeMap<u8, Residual>,
    /// Transitions so far that may change what a reading of the card is compared with.
    pub(crate) changes: u64,
    /// Whether memory was handed to other processes, which may keep it on the card after its release here.
    pub(crate) handed_out: bool,
    /// Releases that went unseen: what was live where something new is.
    pub(crate) missed_releases: u64,
    unwritten: Unwritten,
}

/// Events that are not recorded yet, some with where their numbers are told.
#[derive(Debug, Default)]
struct Unwritten {
    events: VecDeque<(Event, Option<Number>)>,
    /// How many there were so far.
    pushed: u64,
}

/// What there is of that the recorder need not ask for, or be careful with, as long as there is none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Interest(pub u8);

impl Interest {
    /// Something of which only the driver says how much it holds: pools, graphs.
    pub const QUESTIONS: Self = Self(1);
    /// Pools that were destroyed and still hold something.
    pub const DESTROYED_POOLS: Self = Self(2);
    /// Graphs with memory nodes.
    pub const GRAPHS: Self = Self(4);
    /// Primary contexts that were reset and may come back to life unseen.
    pub const INACTIVE_CONTEXTS: Self = Self(8);

    /// Whether all of `other` is in it.
    pub fn has(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }
}

impl Tracker {
    /// Nothing is live and nothing is known.
    pub fn new() -> Self {
        Self::default()
    }

    /// What there is.
    pub fn interest(&self) -> Interest {
        let asks = !self.pools.is_empty() || self.graphs.are_used();
        let bit = |is, bit: Interest| if is { bit.0 } else { 0 };
        Interest(
            bit(asks, Interest::QUESTIONS)
                | bit(self.pools.any_destroyed(), Interest::DESTROYED_POOLS)
                | bit(!self.graphs.is_empty(), Interest::GRAPHS)
                | bit(self.inactive != 0, Interest::INACTIVE_CONTEXTS),
        )
    }

    pub(crate) fn push(&mut self, event: Event) {
        self.unwritten.events.push_back((event, None));
        self.unwritten.pushed += 1;
    }

    /// The same of an event whose number a call wants to know.
    pub(crate) fn push_numbered(&mut self, event: Event) -> Number {
        let number = Number::unknown();
        let to = Some(number.clone());
        self.unwritten.events.push_back((event, to));
        self.unwritten.pushed += 1;
        number
    }

    /// The oldest event that is not recorded yet; its time is to be set.
    pub fn unwritten(&self) -> Option<&Event> {
        self.unwritten.events.front().map(|(event, _)| event)
    }

    /// The oldest event is recorded under this number, or (`None`) given up.
    pub fn written(&mut self, seq: Option<Seq>) {
        if let Some((_, Some(number))) = self.unwritten.events.pop_front() {
            number.set(seq);
        }
    }

    /// How many events there were, and how many of them are recorded or given up.
    pub fn progress(&self) -> (u64, u64) {
        let pushed = self.unwritten.pushed;
        (pushed, pushed - self.unwritten.events.len() as u64)
    }

    /// Releases that went unseen since this was last asked.
    pub fn take_missed_releases(&mut self) -> u64 {
        core::mem::take(&mut self.missed_releases)
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

    /// Addresses were reserved, with no memory behind them. `caller` is the return address of the call.
    pub fn address_reserved(&mut self, ptr: u64, bytes: u64, caller: u64, origin: Origin) {
        self.addresses.insert(ptr, bytes);
        self.push(Event {
            ptr,
            bytes,
            aux: caller,
            device: DeviceOrdinal::NONE,
            ..origin.event(EventKind::ADDRESS, Level::DRIVER)
        });
    }

    /// Addresses are about to be given back.
    pub fn address_ending(&mut self, ptr: u64, origin: Origin) -> Option<Pending> {
        let bytes = self.addresses.remove(&ptr)?;
        self.push(Event {
            ptr,
            bytes,
            device: DeviceOrdinal::NONE,
            ..origin.event(EventKind::ADDRESS_END, Level::DRIVER)
        });
        let mut pending = Pending::default();
        pending.push(Undo::Address { ptr, bytes });
        Some(pending)
    }

    /// The driver says what a pool, or the graphs of a device, hold now; 0: it is gone.
    pub(crate) fn reserved(
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
        if from == to {
            return;
        }
        let flags = reservation.kind.flags();
        self.push(Event {
            ptr: reservation.handle,
            bytes: to,
            aux: from,
            device,
            flags: match estimated {
                true => flags.with(EventFlags::ESTIMATED),
                false => flags,
            },
            ..origin.event(EventKind::RESIZE, Level::PHYSICAL)
        });
    }
}
