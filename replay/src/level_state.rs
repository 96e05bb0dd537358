//! The state of one level of one device.

use std::collections::VecDeque;

use gpumem_capture::{CounterValues, Event, EventFlags, EventKind, Level, Nanos, Seq};
use rustc_hash::FxHashMap;

use crate::block::{Block, Made};
use crate::high_water::{Clock, Clocks, Figure, HighWater, Total};
use crate::ids::KeyId;
use crate::peak_snapshot::{Address, PeakSnapshot, Reservations};
use crate::reservation::{Change, Reservation, ReservationKind};
use crate::sampling::Sampled;
use crate::serialize::serialize;
use crate::window::Window;

/// How an event changed the live blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Nothing.
    None,
    /// This block became live (again, where a free was cancelled).
    Live(Block),
    /// This block is no longer live.
    Gone(Block),
}

/// Inconsistencies of records. With any of them, the account is not "exact".
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Anomalies {
    /// Allocations at an address that was already live: the free was not recorded.
    pub double_allocations: u64,
    /// Frees of blocks that the recorder knew, whose allocation is not in the capture.
    pub frees_without_block: u64,
    /// Frees whose bytes differ from those of the allocation.
    pub frees_of_other_size: u64,
    /// Frees of addresses that the recorder did not know.
    pub unknown_pointers: u64,
    /// Cancelled frees that were not found.
    pub lost_cancels: u64,
    /// Events at which the framework's own figure differed from the recorder's.
    pub mismatches: u64,
    /// Reservations whose size before a growth or shrink differs from the one recorded.
    pub reservations_of_other_size: u64,
}

/// One level of one device.
#[derive(Debug, Default)]
pub struct LevelState {
    /// Figures over the whole capture, by the rules that the recorder counts by.
    pub counters: CounterValues,
    /// The event at which the peak was reached first, and when.
    pub peak: (Seq, Nanos),
    /// Live bytes at the queried point in time (until then: now).
    pub live_at_moment: u64,
    /// Live bytes of the queried step's blocks at that point, and their peak; zeros without such a step.
    pub made_live: u64,
    /// See `made_live`.
    pub made_peak: u64,
    /// Inconsistent records.
    pub anomalies: Anomalies,
    pub(crate) clock: Clock,
    /// The event of the newest peak that figures by stack are kept for.
    pub(crate) ticked: Option<Seq>,
    pub(crate) device_clock: Clock,
    pub(crate) by_stack: FxHashMap<KeyId, HighWater>,
    /// The figures of the unseen blocks that each stack's blocks stand for, where stacks are sampled: see
    /// [`crate::Sampling`].
    pub(crate) unseen: FxHashMap<KeyId, HighWater>,
    pub(crate) blocks: FxHashMap<Address, Block>,
    pub(crate) reservations: Reservations,
    pub(crate) freed: Freed,
    /// The device's peak, if the query requests it.
    pub(crate) peak_snapshot: PeakSnapshot,
    /// Live blocks that are not kept individually: see [`crate::Evicted`]. Their bytes count for
    /// [`crate::StackKey::EVICTED`], whose id is kept with them.
    pub(crate) unkept: Option<(KeyId, Figure)>,
}

/// How many frees are remembered. A call that ends a context or unmaps a range frees many blocks, and other threads
/// free meanwhile. All of these come between a free and its cancellation.
const REMEMBERED: usize = 1 << 18;

/// The newest frees, which may still be cancelled. One failed call may cancel many of them.
#[derive(Debug, Default)]
pub(crate) struct Freed(pub(crate) VecDeque<(Seq, Block)>);

impl Freed {
    /// Remembers a free. Sequence numbers increase from call to call.
    fn push(&mut self, seq: Seq, block: Block) {
        if self.0.len() == REMEMBERED {
            self.0.pop_front();
        }
        self.0.push_back((seq, block));
    }

    /// The block that the free `seq` freed.
    fn find(&self, seq: Seq) -> Option<Block> {
        let at = self.0.binary_search_by_key(&seq, |(seq, _)| *seq).ok()?;
        self.0.get(at).map(|(_, block)| *block)
    }
}

serialize! {
    Anomalies {
        double_allocations, frees_without_block, frees_of_other_size, unknown_pointers, lost_cancels,
        mismatches, reservations_of_other_size,
    }
    Freed { 0 }
    LevelState {
        counters, peak, live_at_moment, made_live, made_peak, anomalies, clock, ticked, device_clock, by_stack,
        blocks, reservations, freed, peak_snapshot, unkept, unseen
    }
}

impl LevelState {
    /// Applies an event. `window`: which blocks count for the figures by stack, and until when; `device_clock` is the
    /// device's clock before the event.
    pub(crate) fn apply(
        &mut self,
        seq: Seq,
        event: &Event,
        made: Made,
        device_clock: Clock,
        window: &Window,
        sampled: Sampled<'_>,
    ) -> Effect {
        let before = self.counters.peak;
        self.counters.apply(event);
        self.device_clock = device_clock;
        let effect = self.blocks(seq, event, made, window, sampled);
        if self.counters.peak > before {
            self.peak = (seq, event.time);
            if window.step.is_none() && window.at(seq) {
                self.tick(seq);
            }
        }
        if self.made_live > self.made_peak {
            self.made_peak = self.made_live;
            self.tick(seq);
        }
        if window.at(seq) {
            self.live_at_moment = self.counters.live;
        }
        self.anomalies.mismatches += u64::from(event.flags.contains(EventFlags::MISMATCH));
        effect
    }

    fn tick(&mut self, seq: Seq) {
        self.clock.tick();
        self.ticked = Some(seq);
    }

    fn blocks(
        &mut self,
        seq: Seq,
        event: &Event,
        Made {
            key,
            turn,
            is_early,
            ..
        }: Made,
        window: &Window,
        sampled: Sampled<'_>,
    ) -> Effect {
        let address = (event.ptr, event.flags.contains(EventFlags::VMM_HANDLE));
        match event.kind {
            EventKind::ALLOC => {
                let block = Block {
                    bytes: event.bytes,
                    key,
                    seq,
                    flags: event.flags,
                    turn,
                    is_early,
                    is_told: false,
                };
                if let Some(before) = self.blocks.insert(address, block) {
                    self.anomalies.double_allocations += 1;
                    self.peak_snapshot.freed(address, before);
                }
                if let Some((high_water, now)) = self.high_water(seq, block, window) {
                    high_water.add(Figure::block(block.bytes), now);
                    if let Some(unseen) = sampled.unseen(block) {
                        self.unseen.entry(block.key).or_default().add(unseen, now);
                    }
                }
                Effect::Live(block)
            }
            EventKind::FREE if event.flags.contains(EventFlags::UNKNOWN_POINTER) => {
                self.anomalies.unknown_pointers += 1;
                Effect::None
            }
            EventKind::FREE => {
                let Some(block) = self.blocks.remove(&address) else {
                    if self.free_unkept(event.bytes) {
                        return Effect::None;
                    }
                    self.anomalies.frees_without_block += 1;
                    return Effect::None;
                };
                self.peak_snapshot.freed(address, block);
                self.anomalies.frees_of_other_size += u64::from(block.bytes != event.bytes);
                // The framework reports its blocks' frees afterwards, so they cannot fail.
                if event.level != Level::TENSOR {
                    self.freed.push(seq, block);
                }
                if window.at(seq) && window.made(block.seq, block.bytes) {
                    let now = self.clocks();
                    let high_water = self.by_stack.entry(block.key).or_default();
                    high_water.remove(Figure::block(event.bytes), now);
                    if let (Some(unseen), Some(high_water)) =
                        (sampled.unseen(block), self.unseen.get_mut(&block.key))
                    {
                        high_water.remove(unseen, now);
                    }
                    if window.step.is_some() {
                        self.made_live = self.made_live.saturating_sub(event.bytes);
                    }
                }
                Effect::Gone(block)
            }
            EventKind::CANCEL => {
                let block = self.freed.find(Seq(event.aux)).unwrap_or_else(|| {
                    self.anomalies.lost_cancels += 1;
                    Block {
                        bytes: event.bytes,
                        key,
                        seq,
                        flags: event.flags,
                        turn,
                        is_early,
                        is_told: false,
                    }
                });
                if self.blocks.insert(address, block).is_some() {
                    self.anomalies.double_allocations += 1;
                }
                self.peak_snapshot.restore(address, block);
                if let Some((high_water, now)) = self.high_water(seq, block, window) {
                    high_water.add_live(Figure::block(block.bytes), now);
                    high_water.cancel_free();
                }
                Effect::Live(block)
            }
            EventKind::RESIZE => {
                // The growth of a reservation belongs to no step, and has no block size.
                let counts = window.at(seq) && window.step.is_none() && window.all_sizes();
                self.resize(event, key, counts);
                Effect::None
            }
            _ => Effect::None,
        }
    }

    /// A reservation changed its size.
    fn resize(&mut self, event: &Event, key: KeyId, counts: bool) {
        let id = (ReservationKind::of(event.flags), event.ptr);
        let now = self.clocks();
        self.peak_snapshot.reservations_change(&self.reservations);
        let reservation = self.reservations.entry(id).or_default();
        self.anomalies.reservations_of_other_size += u64::from(reservation.bytes() != event.aux);
        let by_stack = &mut self.by_stack;
        reservation.resize(event.bytes, key, &mut |change| {
            if !counts {
                return;
            }
            let (Change::New(key, _)
            | Change::More(key, _)
            | Change::Less(key, _)
            | Change::End(key, _)) = change;
            let high_water = by_stack.entry(key).or_default();
            match change {
                Change::New(_, bytes) => high_water.add(Figure::block(bytes), now),
                Change::More(_, bytes) => high_water.grow(bytes, now),
                Change::Less(_, bytes) => high_water.shrink(bytes, now),
                Change::End(_, bytes) => high_water.remove(Figure::block(bytes), now),
            }
        });
        if reservation.bytes() == 0 {
            self.reservations.remove(&id);
        }
    }

    /// The figures of a block that becomes live, if it counts.
    fn high_water(
        &mut self,
        seq: Seq,
        block: Block,
        window: &Window,
    ) -> Option<(&mut HighWater, Clocks)> {
        if !(window.at(seq) && window.made(block.seq, block.bytes)) {
            return None;
        }
        if window.step.is_some() {
            self.made_live = self.made_live.saturating_add(block.bytes);
        }
        let now = self.clocks();
        Some((self.by_stack.entry(block.key).or_default(), now))
    }

    /// Frees one of the blocks that are not kept individually, if there is one.
    fn free_unkept(&mut self, bytes: u64) -> bool {
        let now = self.clocks();
        let Some((key, unkept)) = self.unkept.as_mut().filter(|(_, unkept)| unkept.blocks > 0)
        else {
            return false;
        };
        unkept.bytes = unkept.bytes.saturating_sub(bytes);
        unkept.blocks -= 1;
        let high_water = self.by_stack.entry(*key).or_default();
        high_water.remove(Figure::block(bytes), now);
        true
    }

    pub(crate) fn clocks(&self) -> Clocks {
        Clocks {
            level: self.clock,
            device: self.device_clock,
        }
    }

    /// Applies `of` to each stack: to the figures of its blocks, and of the unseen blocks that they stand for.
    fn each<T>(&self, of: impl Fn(&HighWater) -> T) -> impl Iterator<Item = (KeyId, T, T)> {
        let nothing = HighWater::default();
        self.by_stack.iter().map(move |(key, high_water)| {
            let unseen = self.unseen.get(key).unwrap_or(&nothing);
            (*key, of(high_water), of(unseen))
        })
    }

    /// Figures by stack at the level's own peak: see [`LevelState::each`].
    pub(crate) fn at_peak(&self) -> impl Iterator<Item = (KeyId, Figure, Figure)> {
        let now = self.clocks();
        self.each(move |high_water| high_water.at_level_peak(now))
    }

    /// Figures by stack at the device's peak, whose clock is `device_clock` at the end.
    pub(crate) fn at_device_peak(
        &self,
        device_clock: Clock,
    ) -> impl Iterator<Item = (KeyId, Figure, Figure)> {
        let now = Clocks {
            level: self.clock,
            device: device_clock,
        };
        self.each(move |high_water| high_water.at_device_peak(now))
    }

    /// Figures by stack at the end, or at the queried point in time.
    pub(crate) fn live_by_stack(&self) -> impl Iterator<Item = (KeyId, Figure, Figure)> {
        self.each(HighWater::live)
    }

    /// The figures of each stack's own blocks at the end, or at the queried point in time. Where stacks are sampled,
    /// this is not an estimate of what the stack holds: see [`crate::Replay::figures`].
    pub fn live(&self) -> impl Iterator<Item = (KeyId, Figure)> {
        self.live_by_stack().map(|(key, figure, _)| (key, figure))
    }

    /// The totals of each stack over the whole capture: see [`LevelState::each`].
    pub(crate) fn totals_by_stack(&self) -> impl Iterator<Item = (KeyId, Total, Total)> {
        self.each(HighWater::total)
    }

    /// The totals of each stack's own blocks over the whole capture: see [`LevelState::live`].
    pub fn totals(&self) -> impl Iterator<Item = (KeyId, Total)> {
        self.totals_by_stack().map(|(key, total, _)| (key, total))
    }

    /// Blocks live now, in no particular order.
    pub fn live_blocks(&self) -> impl Iterator<Item = (u64, Block)> {
        self.blocks
            .iter()
            .map(|((address, _), block)| (*address, *block))
    }

    /// The block of a VMM handle, if it is live.
    pub fn handle(&self, handle: u64) -> Option<Block> {
        self.blocks.get(&(handle, true)).copied()
    }

    /// The current reservations, in the order of their kinds and handles.
    pub fn reservations(&self) -> Vec<(ReservationKind, u64, &Reservation)> {
        let mut all: Vec<_> = self
            .reservations
            .iter()
            .map(|((kind, ptr), reservation)| (*kind, *ptr, reservation))
            .collect();
        all.sort_unstable_by_key(|(kind, ptr, _)| (*kind, *ptr));
        all
    }
}
