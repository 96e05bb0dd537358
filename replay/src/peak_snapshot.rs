//! A copy-on-write snapshot of what was live at a device's peak, so that readers need no second pass over the records.
//!
//! At a new peak the snapshot is the live state, and nothing is copied. A block that was live at the peak is
//! copied when it is freed, so the snapshot's memory is bounded by what was live at the peak.

use gpumem_capture::Seq;
use rustc_hash::{FxHashMap, FxHashSet};

use crate::block::Block;
use crate::later_growth::LaterGrowth;
use crate::objects::Objects;
use crate::readings::Reading;
use crate::reservation::{Reservation, ReservationKind};
use crate::serialize::serialize;

/// A block's address, and whether it is a VMM handle.
pub(crate) type Address = (u64, bool);

/// Reservations by kind and handle.
pub(crate) type Reservations = FxHashMap<(ReservationKind, u64), Reservation>;

/// The part of a level that was live at the device's peak and no longer is.
#[derive(Debug, Default)]
pub(crate) struct PeakSnapshot {
    /// The event of the peak; `None` without a snapshot.
    peak: Option<Seq>,
    gone: FxHashMap<Address, Block>,
    /// Blocks older than the peak that are live again since: their frees before the peak were cancelled.
    back: FxHashSet<Address>,
    /// Reservations as they were, once one has changed.
    reservations: Option<Reservations>,
}

impl PeakSnapshot {
    /// Begins a snapshot at a new peak.
    pub(crate) fn begin(&mut self, peak: Seq) {
        self.peak = Some(peak);
        self.gone.clear();
        self.back.clear();
        self.reservations = None;
    }

    /// A block is no longer live.
    #[inline]
    pub(crate) fn freed(&mut self, address: Address, block: Block) {
        let was_live = self.peak.is_some_and(|peak| block.seq <= peak);
        let came_back = was_live && !self.back.is_empty() && self.back.remove(&address);
        if was_live && !came_back {
            self.gone.entry(address).or_insert(block);
        }
    }

    /// A block is live again.
    pub(crate) fn restore(&mut self, address: Address, block: Block) {
        if self.peak.is_none_or(|peak| block.seq > peak) {
            return;
        }
        if self
            .gone
            .get(&address)
            .is_some_and(|gone| gone.seq == block.seq)
        {
            self.gone.remove(&address);
        } else {
            self.back.insert(address);
        }
    }

    /// Reservations are about to change.
    pub(crate) fn reservations_change(&mut self, now: &Reservations) {
        if self.peak.is_some() && self.reservations.is_none() {
            self.reservations = Some(now.clone());
        }
    }

    /// All that was live at the peak, given what is live now.
    pub(crate) fn blocks(&self, now: &FxHashMap<Address, Block>) -> FxHashMap<Address, Block> {
        let peak = self.peak.unwrap_or_default();
        let still = now
            .iter()
            .filter(|(address, block)| block.seq <= peak && !self.back.contains(*address));
        still
            .chain(&self.gone)
            .map(|(address, block)| (*address, *block))
            .collect()
    }

    /// The reservations at the peak, given those now.
    pub(crate) fn reservations(&self, now: &Reservations) -> Reservations {
        self.reservations.as_ref().unwrap_or(now).clone()
    }

    /// Calls `change` for the keys of copied blocks and reservations.
    pub(crate) fn each_key(&mut self, change: &mut dyn FnMut(&mut crate::ids::KeyId)) {
        for block in self.gone.values_mut() {
            change(&mut block.key);
        }
        for reservation in self
            .reservations
            .iter_mut()
            .flat_map(|all| all.values_mut())
        {
            reservation.each_key(change);
        }
    }

    /// Drops a copied block.
    pub(crate) fn forget(&mut self, address: &Address) {
        self.gone.remove(address);
    }

    /// How many blocks were copied.
    pub(crate) fn len(&self) -> usize {
        self.gone.len()
    }

    /// Addresses of the copied blocks, the smallest first.
    pub(crate) fn smallest(&self, count: usize) -> Vec<Address> {
        let mut all: Vec<_> = self
            .gone
            .iter()
            .map(|(address, block)| (block.bytes, *address))
            .collect();
        all.sort_unstable();
        all.truncate(count);
        all.into_iter().map(|(_, address)| address).collect()
    }
}

/// How many readings after the peak are kept. The ledger searches 16 of them for one during which nothing moved, and
/// each may come twice: the second time with the card's figures.
const READINGS: usize = 64;

/// The parts of a device's peak that belong to no level.
#[derive(Debug, Default)]
pub(crate) struct DevicePeakSnapshot {
    /// Objects as they were, once one has changed.
    pub(crate) objects: Option<Objects>,
    /// The newest reading before the peak.
    pub(crate) before: Option<Reading>,
    /// Readings after it, each with whether it is a new one.
    pub(crate) after: Vec<(Reading, bool)>,
    /// The growth of contexts and modules after it.
    pub(crate) later: LaterGrowth,
    /// The newest start of a context or module before the peak.
    pub(crate) newest_begun: Option<Seq>,
}

impl DevicePeakSnapshot {
    /// Calls `change` for the stacks of copied objects and of growths.
    pub(crate) fn each_key(&mut self, change: &mut dyn FnMut(&mut crate::ids::KeyId)) {
        if let Some(objects) = &mut self.objects {
            objects.each_key(change);
        }
        self.later.each_key(change);
    }

    /// Whether more readings are kept.
    pub(crate) fn is_open(&self) -> bool {
        self.after.len() < READINGS
    }

    /// A reading came after the peak.
    pub(crate) fn reading(&mut self, reading: Reading, fresh: bool) {
        if self.is_open() {
            self.after.push((reading, fresh));
        }
    }
}

serialize! {
    PeakSnapshot { peak, gone, back, reservations }
    DevicePeakSnapshot { objects, before, after, later, newest_begun }
}
