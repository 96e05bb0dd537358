//! The books of one device: requested bytes and physical bytes, exact at every moment.
//!
//! *Requested* bytes are the bytes of the callers' requests, by kind; their sum is what gpumem must
//! report at its driver level, to the byte. *Physical* bytes are whole pages, pool chunks, contexts
//! and modules, as NVML and `cuMemGetInfo` report them. They are taken from the card, which other
//! processes may share.

use super::kind::{Holding, Kind};
use crate::ffi::CuError;
use gpumem_sim_card::Cards;
use gpumem_sim_machine::DeviceSpec;
use std::fmt::Write;
use std::sync::Arc;

/// Requested bytes of one kind, or of all device memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counter {
    /// Live bytes.
    pub current: u64,
    /// Greatest `current` so far.
    pub peak: u64,
    /// Allocations so far.
    pub allocations: u64,
    /// Frees so far, including those by the end of a context.
    pub frees: u64,
}

impl Counter {
    fn add(&mut self, bytes: u64) {
        self.current += bytes;
        self.allocations += 1;
        self.peak = self.peak.max(self.current);
    }

    fn remove(&mut self, bytes: u64) {
        debug_assert!(bytes <= self.current, "more freed than was live");
        self.current -= bytes;
        self.frees += 1;
    }
}

/// Current and peak bytes.
#[derive(Clone, Copy, Debug, Default)]
struct Level {
    current: u64,
    peak: u64,
}

impl Level {
    fn rise(&mut self, bytes: u64) {
        self.current += bytes;
        self.peak = self.peak.max(self.current);
    }

    fn fall(&mut self, bytes: u64) {
        debug_assert!(bytes <= self.current, "more given back than was taken");
        self.current -= bytes;
    }
}

/// The books of one device.
#[derive(Clone, Debug)]
pub struct DeviceBooks {
    total_bytes: u64,
    other_bytes: u64,
    context_bytes: u64,
    /// The table of all processes' memory and the device's place in it, if the card is shared.
    shared: Option<(Arc<Cards>, usize)>,
    kinds: [Counter; Kind::ALL.len()],
    driver: Counter,
    pinned: Counter,
    physical: Level,
    holdings: [Level; Holding::ALL.len()],
}

impl DeviceBooks {
    /// Empty books, whose memory is taken from `cards` if they are shared.
    pub fn new(spec: &DeviceSpec, cards: Option<&Arc<Cards>>) -> Self {
        Self {
            total_bytes: spec.total_bytes,
            other_bytes: spec.other_bytes,
            context_bytes: spec.context_bytes,
            shared: cards.map(|cards| (Arc::clone(cards), spec.unit())),
            kinds: Default::default(),
            driver: Counter::default(),
            pinned: Counter::default(),
            physical: Level::default(),
            holdings: Default::default(),
        }
    }

    /// The memory that each context on the device costs.
    pub fn context_bytes(&self) -> u64 {
        self.context_bytes
    }

    /// Requested bytes of one kind.
    pub fn kind(&self, kind: Kind) -> Counter {
        self.kinds[kind as usize]
    }

    /// Requested bytes of all device memory; its peak is the peak of the sum.
    pub fn driver(&self) -> Counter {
        self.driver
    }

    /// Pinned host memory, allocated and registered; its peak is the peak of the sum.
    pub fn pinned(&self) -> Counter {
        self.pinned
    }

    /// Physical bytes: current and peak.
    pub fn physical(&self) -> (u64, u64) {
        (self.physical.current, self.physical.peak)
    }

    /// Physical bytes of one kind: current and peak.
    pub fn holding(&self, holding: Holding) -> (u64, u64) {
        let level = self.holdings[holding as usize];
        (level.current, level.peak)
    }

    /// Physical bytes that are free: neither this process nor another uses them.
    pub fn free_bytes(&self) -> u64 {
        let others = match &self.shared {
            Some((cards, unit)) => cards.others(*unit),
            None => 0,
        };
        self.limit()
            .saturating_sub(others)
            .saturating_sub(self.physical.current)
    }

    /// The limit for all simulated processes together.
    fn limit(&self) -> u64 {
        self.total_bytes - self.other_bytes
    }

    /// The card's memory.
    pub fn total_bytes(&self) -> u64 {
        self.total_bytes
    }

    /// Records an allocation of `bytes` requested bytes.
    pub fn allocated(&mut self, kind: Kind, bytes: u64) {
        self.kinds[kind as usize].add(bytes);
        if kind.is_device_memory() {
            self.driver.add(bytes);
        } else {
            self.pinned.add(bytes);
        }
    }

    /// Records that such an allocation was freed.
    pub fn freed(&mut self, kind: Kind, bytes: u64) {
        self.kinds[kind as usize].remove(bytes);
        if kind.is_device_memory() {
            self.driver.remove(bytes);
        } else {
            self.pinned.remove(bytes);
        }
    }

    /// Takes physical memory.
    ///
    /// # Errors
    /// `OUT_OF_MEMORY`, without a change, if fewer bytes are free.
    pub fn take_physical(&mut self, bytes: u64) -> Result<(), CuError> {
        let taken = match &self.shared {
            Some((cards, unit)) => cards.take(*unit, bytes, self.limit()),
            None => bytes <= self.free_bytes(),
        };
        if !taken {
            return Err(CuError::OUT_OF_MEMORY);
        }
        self.physical.rise(bytes);
        Ok(())
    }

    /// Frees physical memory.
    pub fn give_physical(&mut self, bytes: u64) {
        self.physical.fall(bytes);
        if let Some((cards, unit)) = &self.shared {
            cards.give(*unit, bytes);
        }
    }

    /// Records the purpose of physical memory that was taken.
    pub fn holds(&mut self, holding: Holding, bytes: u64) {
        self.holdings[holding as usize].rise(bytes);
    }

    /// Frees physical memory with this purpose.
    pub fn give_held(&mut self, holding: Holding, bytes: u64) {
        self.holdings[holding as usize].fall(bytes);
        self.give_physical(bytes);
    }

    /// Takes memory for managed allocations: as many whole pages as are free, at most `most` bytes.
    pub fn take_resident(&mut self, most: u64, page: u64) -> u64 {
        let taken = match &self.shared {
            Some((cards, unit)) => cards.take_up_to(*unit, most, page, self.limit()),
            None => most.min(self.free_bytes() / page * page),
        };
        self.physical.rise(taken);
        self.holds(Holding::Resident, taken);
        taken
    }

    /// A figure by its name in the JSON: current and peak.
    pub fn by_name(&self, name: &str) -> Option<(u64, u64)> {
        let of = |counter: Counter| (counter.current, counter.peak);
        match name {
            "driver" => Some(of(self.driver)),
            "pinned" => Some(of(self.pinned)),
            "physical" => Some(self.physical()),
            "total" => Some((self.total_bytes, self.total_bytes)),
            _ => {
                let kind = Kind::ALL.into_iter().find(|kind| kind.name() == name);
                let holding = Holding::ALL.into_iter().find(|held| held.name() == name);
                let of_kind = kind.map(|kind| of(self.kind(kind)));
                of_kind.or_else(|| holding.map(|holding| self.holding(holding)))
            }
        }
    }

    /// Writes the figures as members of a JSON object.
    pub fn write_json(&self, out: &mut String) {
        let counter = |out: &mut String, name: &str, c: Counter| {
            let _ = write!(
                out,
                "\"{name}\":{{\"current\":{},\"peak\":{},\"allocations\":{},\"frees\":{}}}",
                c.current, c.peak, c.allocations, c.frees
            );
        };
        out.push_str("\"kinds\":{");
        let device_kinds = Kind::ALL.into_iter().filter(|kind| kind.is_device_memory());
        for (index, kind) in device_kinds.enumerate() {
            if index > 0 {
                out.push(',');
            }
            counter(out, kind.name(), self.kind(kind));
        }
        out.push_str("},");
        counter(out, "driver", self.driver);
        for kind in [Kind::Host, Kind::Registered] {
            out.push(',');
            counter(out, kind.name(), self.kind(kind));
        }
        out.push(',');
        counter(out, "pinned", self.pinned);
        let holdings = Holding::ALL.map(|held| (held.name(), self.holding(held)));
        for (name, (current, peak)) in [("physical", self.physical())].into_iter().chain(holdings) {
            let _ = write!(out, ",\"{name}\":{{\"current\":{current},\"peak\":{peak}}}");
        }
    }
}
