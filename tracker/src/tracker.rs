//! The state, and the queue of events to be recorded.

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
    /// By address, or by handle for memory without an address.
    pub(crate) aliases: BTreeMap<u64, Opened>,
    pub(crate) handles: BTreeMap<u64, Handle>,
    /// By first address.
    pub(crate) mappings: BTreeMap<u64, Mapping>,
    /// The handles that are bound to multicast objects.
    pub(crate) bindings: BTreeMap<Binding, u64>,
    /// Ranges of addresses: the size of each, by its first address.
    addresses: BTreeMap<u64, u64>,
    pub(crate) contexts: BTreeMap<u64, Context>,
    /// The number of inactive contexts among them.
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
    /// The number of changes so far that may affect the comparison with a reading of the card.
    pub(crate) changes: u64,
    /// Whether memory was shared with other processes, which may keep it on the card after its release
    /// here.
    pub(crate) handed_out: bool,
    /// The number of missed releases: something was still live at the address of a new allocation.
    pub(crate) missed_releases: u64,
    unwritten: Unwritten,
}

/// Events that are not recorded yet; some have a place for their number.
#[derive(Debug, Default)]
struct Unwritten {
    events: VecDeque<(Event, Option<Number>)>,
    /// The number of events so far.
    pushed: u64,
}

/// The kinds of state that exist. As long as a kind does not exist, the recorder can skip its queries and
/// precautions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Interest(pub u8);

impl Interest {
    /// Pools and graphs, whose sizes only the driver reports.
    pub const QUESTIONS: Self = Self(1);
    /// Destroyed pools that still hold memory.
    pub const DESTROYED_POOLS: Self = Self(2);
    /// Graphs with memory nodes.
    pub const GRAPHS: Self = Self(4);
    /// Primary contexts that were reset and may be activated without being noticed.
    pub const INACTIVE_CONTEXTS: Self = Self(8);
    /// Pools whose memory is not a device's own.
    pub const POOLS_ELSEWHERE: Self = Self(16);
    /// Mapped handles.
    pub const MAPPINGS: Self = Self(32);

    /// Whether it contains all of `other`.
    pub fn has(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }
}

impl Tracker {
    /// An empty tracker.
    pub fn new() -> Self {
        Self::default()
    }

    /// The kinds of state that exist now.
    pub fn interest(&self) -> Interest {
        let asks = !self.pools.is_empty() || self.graphs.are_used();
        let bit = |is, bit: Interest| if is { bit.0 } else { 0 };
        Interest(
            bit(asks, Interest::QUESTIONS)
                | bit(self.pools.any_destroyed(), Interest::DESTROYED_POOLS)
                | bit(!self.graphs.is_empty(), Interest::GRAPHS)
                | bit(self.inactive != 0, Interest::INACTIVE_CONTEXTS)
                | bit(self.pools.any_elsewhere(), Interest::POOLS_ELSEWHERE)
                | bit(!self.mappings.is_empty(), Interest::MAPPINGS),
        )
    }

    pub(crate) fn push(&mut self, event: Event) {
        self.unwritten.events.push_back((event, None));
        self.unwritten.pushed += 1;
    }

    /// The same for an event whose number a call needs later.
    pub(crate) fn push_numbered(&mut self, event: Event) -> Number {
        let number = Number::unknown();
        let to = Some(number.clone());
        self.unwritten.events.push_back((event, to));
        self.unwritten.pushed += 1;
        number
    }

    /// The oldest event that is not recorded yet; the caller sets its time.
    pub fn unwritten(&self) -> Option<&Event> {
        self.unwritten.events.front().map(|(event, _)| event)
    }

    /// Records the number of the oldest event; `None` if the event was abandoned.
    pub fn written(&mut self, seq: Option<Seq>) {
        if let Some((_, Some(number))) = self.unwritten.events.pop_front() {
            number.set(seq);
        }
    }

    /// The number of events so far, and the number of those that are recorded or abandoned.
    pub fn progress(&self) -> (u64, u64) {
        let pushed = self.unwritten.pushed;
        (pushed, pushed - self.unwritten.events.len() as u64)
    }

    /// The missed releases since the last call of this function.
    pub fn take_missed_releases(&mut self) -> u64 {
        core::mem::take(&mut self.missed_releases)
    }

    /// The bytes of a reservation.
    pub fn bytes(&self, reservation: Reservation) -> u64 {
        self.reservations.bytes(reservation)
    }

    /// The bytes of all reservations of a kind on a device.
    pub fn bytes_of(&self, device: DeviceOrdinal, kind: Kind) -> u64 {
        let all = self.reservations.of_device(device);
        all.filter(|(reservation, _)| reservation.kind == kind)
            .map(|(_, bytes)| bytes)
            .sum()
    }

    /// Records reserved addresses without memory behind them. `caller` is the return address of the call.
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

    /// Records that reserved addresses are about to be freed.
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

    /// Records the current size of a pool, or of the graphs of a device, as reported by the driver; 0 if
    /// it no longer exists.
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

    /// Records that memory was shared with other processes.
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
