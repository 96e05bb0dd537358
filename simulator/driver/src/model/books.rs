//! The books: what was asked for and what the card gave, exact at every moment.
//!
//! Two ledgers are kept for each device. *Requested* bytes are what callers asked for, by kind;
//! their sum is what gpumem must report at its driver level, to the byte. *Physical* bytes are
//! whole pages, pool chunks, contexts and modules: what NVML and `cuMemGetInfo` say. They are
//! taken from the card, which other processes may share.

use gpumem_cuda_abi::CuResult;
use gpumem_sim_card::Cards;
use gpumem_sim_machine::DeviceSpec;
use std::fmt::Write;
use std::sync::Arc;

/// What kind of allocation bytes belong to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// `cuMemAlloc`, `cuMemAllocPitch` (pitch × height).
    Device,
    /// `cuMemAllocManaged`.
    Managed,
    /// `cuMemAllocAsync`, `cuMemAllocFromPoolAsync`.
    Async,
    /// `cuMemCreate` handles on the device, whether mapped or not.
    Vmm,
    /// Arrays and mipmapped arrays (bytes from their descriptors).
    Array,
    /// Memory of graphs' allocation nodes, from a launch until it is freed.
    Graph,
    /// Pinned host memory: `cuMemAllocHost`, `cuMemHostAlloc`, `cuMemCreate` on the host. Not
    /// device memory.
    Host,
    /// Host memory that the program brought: `cuMemHostRegister`. Not device memory.
    Registered,
}

impl Kind {
    /// Every kind, in the order in which the books list them.
    pub const ALL: [Self; 8] = [
        Self::Device,
        Self::Managed,
        Self::Async,
        Self::Vmm,
        Self::Array,
        Self::Graph,
        Self::Host,
        Self::Registered,
    ];

    /// Its name in the books.
    pub fn name(self) -> &'static str {
        match self {
            Self::Device => "device",
            Self::Managed => "managed",
            Self::Async => "async",
            Self::Vmm => "vmm",
            Self::Array => "array",
            Self::Graph => "graph",
            Self::Host => "host",
            Self::Registered => "registered",
        }
    }

    /// Whether its bytes count as device memory ("driver").
    pub fn is_device_memory(self) -> bool {
        !matches!(self, Self::Host | Self::Registered)
    }
}

/// Physical bytes that are told apart from the rest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Holding {
    /// Managed memory that lies on the device now.
    Resident,
    /// Contexts, with what their limits cost.
    Context,
    /// Loaded modules.
    Module,
    /// What this process has released while another one still has it open.
    Lingering,
}

impl Holding {
    /// Every one, in the order in which the books list them.
    pub const ALL: [Self; 4] = [Self::Resident, Self::Context, Self::Module, Self::Lingering];

    /// Its name in the books.
    pub fn name(self) -> &'static str {
        match self {
            Self::Resident => "resident",
            Self::Context => "context",
            Self::Module => "module",
            Self::Lingering => "lingering",
        }
    }
}

/// Requested bytes of one kind, or of all device memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counter {
    /// Live bytes.
    pub current: u64,
    /// Greatest `current` so far.
    pub peak: u64,
    /// Allocations so far.
    pub allocations: u64,
    /// Frees so far, those by the end of a context included.
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

/// Bytes now and at most.
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
    /// The table of all processes' memory and the device's place in it, if the card is shared.
    shared: Option<(Arc<Cards>, usize)>,
    kinds: [Counter; Kind::ALL.len()],
    driver: Counter,
    pinned: Counter,
    physical: Level,
    holdings: [Level; Holding::ALL.len()],
}

impl DeviceBooks {
    fn new(spec: &DeviceSpec, cards: Option<&Arc<Cards>>) -> Self {
        Self {
            total_bytes: spec.total_bytes,
            other_bytes: spec.other_bytes,
            shared: cards.map(|cards| (Arc::clone(cards), spec.unit())),
            kinds: Default::default(),
            driver: Counter::default(),
            pinned: Counter::default(),
            physical: Level::default(),
            holdings: Default::default(),
        }
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

    /// Physical bytes: now, and at most.
    pub fn physical(&self) -> (u64, u64) {
        (self.physical.current, self.physical.peak)
    }

    /// Physical bytes of one sort: now, and at most.
    pub fn holding(&self, holding: Holding) -> (u64, u64) {
        let level = self.holdings[holding as usize];
        (level.current, level.peak)
    }

    /// Physical bytes that are still free: neither this process nor another has them.
    pub fn free_bytes(&self) -> u64 {
        let others = match &self.shared {
            Some((cards, unit)) => cards.others(*unit),
            None => 0,
        };
        self.limit()
            .saturating_sub(others)
            .saturating_sub(self.physical.current)
    }

    /// What the processes that are simulated may have together.
    fn limit(&self) -> u64 {
        self.total_bytes - self.other_bytes
    }

    /// The card's memory.
    pub fn total_bytes(&self) -> u64 {
        self.total_bytes
    }

    /// Writes down an allocation of `bytes` requested bytes.
    pub fn allocated(&mut self, kind: Kind, bytes: u64) {
        self.kinds[kind as usize].add(bytes);
        if kind.is_device_memory() {
            self.driver.add(bytes);
        } else {
            self.pinned.add(bytes);
        }
    }

    /// Writes down that such an allocation is gone.
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
    /// `OUT_OF_MEMORY`, with nothing changed, if less than that is free.
    pub fn take_physical(&mut self, bytes: u64) -> Result<(), CuResult> {
        let taken = match &self.shared {
            Some((cards, unit)) => cards.take(*unit, bytes, self.limit()),
            None => bytes <= self.free_bytes(),
        };
        if !taken {
            return Err(CuResult::OUT_OF_MEMORY);
        }
        self.physical.rise(bytes);
        Ok(())
    }

    /// Gives physical memory back.
    pub fn give_physical(&mut self, bytes: u64) {
        self.physical.fall(bytes);
        if let Some((cards, unit)) = &self.shared {
            cards.give(*unit, bytes);
        }
    }

    /// Writes down what physical memory that was taken is for.
    pub fn holds(&mut self, holding: Holding, bytes: u64) {
        self.holdings[holding as usize].rise(bytes);
    }

    /// Gives such memory back.
    pub fn give_held(&mut self, holding: Holding, bytes: u64) {
        self.holdings[holding as usize].fall(bytes);
        self.give_physical(bytes);
    }

    /// Takes memory for managed allocations: as many whole pages of `most` bytes as are free.
    pub fn take_resident(&mut self, most: u64, page: u64) -> u64 {
        let taken = match &self.shared {
            Some((cards, unit)) => cards.take_up_to(*unit, most, page, self.limit()),
            None => most.min(self.free_bytes() / page * page),
        };
        self.physical.rise(taken);
        self.holds(Holding::Resident, taken);
        taken
    }

    /// A figure by the name that it has in the JSON: current and peak.
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

    fn write_json(&self, out: &mut String) {
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

/// The books of every device that the process sees.
#[derive(Clone, Debug)]
pub struct Books {
    devices: Vec<(String, DeviceBooks)>,
    context_bytes: u64,
}

impl Books {
    /// Empty books for these devices, whose memory is taken from `cards` if they are shared.
    pub fn new<'a>(
        devices: impl IntoIterator<Item = &'a DeviceSpec>,
        context_bytes: u64,
        cards: Option<Cards>,
    ) -> Self {
        let cards = cards.map(Arc::new);
        let empty = |spec: &DeviceSpec| (spec.uuid_text(), DeviceBooks::new(spec, cards.as_ref()));
        Self {
            devices: devices.into_iter().map(empty).collect(),
            context_bytes,
        }
    }

    /// The books of one device, by ordinal.
    pub fn device(&self, ordinal: usize) -> &DeviceBooks {
        &self.devices[ordinal].1
    }

    /// The books of one device, to write in.
    pub fn device_mut(&mut self, ordinal: usize) -> &mut DeviceBooks {
        &mut self.devices[ordinal].1
    }

    /// The books of the device with this UUID.
    pub fn by_uuid(&self, uuid: &str) -> Option<&DeviceBooks> {
        let mut all = self.devices.iter();
        all.find(|(text, _)| text == uuid).map(|(_, books)| books)
    }

    /// How many devices the books cover.
    pub fn devices(&self) -> usize {
        self.devices.len()
    }

    /// All books as JSON (the layout is in docs/simulator.md).
    pub fn json(&self) -> String {
        let mut out = String::from("{\"devices\":[");
        for (ordinal, (uuid, books)) in self.devices.iter().enumerate() {
            if ordinal > 0 {
                out.push(',');
            }
            let _ = write!(
                out,
                "{{\"ordinal\":{ordinal},\"uuid\":\"{uuid}\",\"total_bytes\":{},\
                 \"context_bytes\":{},",
                books.total_bytes, self.context_bytes
            );
            books.write_json(&mut out);
            out.push('}');
        }
        out.push_str("]}\n");
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spec(index: u32, total_bytes: u64, other_bytes: u64) -> DeviceSpec {
        DeviceSpec {
            other_bytes,
            ..DeviceSpec::new(index, total_bytes)
        }
    }

    fn books() -> Books {
        Books::new(&[spec(0, 100, 0), spec(1, 50, 0)], 7, None)
    }

    #[test]
    fn what_other_processes_have_is_not_free() {
        let mut books = Books::new(&[spec(0, 100, 30)], 7, None);
        let device = books.device_mut(0);
        assert_eq!(device.free_bytes(), 70);
        assert_eq!(device.take_physical(71), Err(CuResult::OUT_OF_MEMORY));
        assert_eq!(device.physical(), (0, 0));
    }

    #[test]
    fn the_peak_of_the_sum_is_not_the_sum_of_the_peaks() {
        let mut books = books();
        let device = books.device_mut(0);
        device.allocated(Kind::Device, 40);
        device.freed(Kind::Device, 40);
        device.allocated(Kind::Async, 30);
        assert_eq!(device.driver().peak, 40);
        assert_eq!(device.driver().current, 30);
        assert_eq!(device.driver().allocations, 2);
        assert_eq!(device.driver().frees, 1);
        assert_eq!(device.kind(Kind::Device).peak, 40);
        assert_eq!(device.kind(Kind::Async).peak, 30);
    }

    #[test]
    fn host_memory_is_not_device_memory() {
        let mut books = books();
        let device = books.device_mut(0);
        device.allocated(Kind::Host, 40);
        device.allocated(Kind::Registered, 2);
        assert_eq!(device.driver(), Counter::default());
        assert_eq!(device.by_name("host"), Some((40, 40)));
        assert_eq!(device.by_name("registered"), Some((2, 2)));
        device.freed(Kind::Host, 40);
        device.allocated(Kind::Registered, 3);
        assert_eq!(device.by_name("pinned"), Some((5, 42)));
        assert_eq!(device.pinned().frees, 1);
    }

    #[test]
    fn holdings_are_part_of_the_physical_bytes() {
        let mut books = books();
        let device = books.device_mut(0);
        assert_eq!(device.take_physical(30), Ok(()));
        device.holds(Holding::Context, 30);
        assert_eq!(
            device.take_resident(90, 20),
            60,
            "whole pages, as far as they fit"
        );
        device.give_held(Holding::Context, 10);
        assert_eq!(device.by_name("context"), Some((20, 30)));
        assert_eq!(device.by_name("resident"), Some((60, 60)));
        assert_eq!(device.by_name("module"), Some((0, 0)));
        assert_eq!(device.physical(), (80, 90));
        assert_eq!(device.by_name("something"), None);
    }

    #[test]
    fn a_refused_page_changes_nothing() {
        let mut books = books();
        let device = books.device_mut(1);
        assert_eq!(device.take_physical(50), Ok(()));
        assert_eq!(device.take_physical(1), Err(CuResult::OUT_OF_MEMORY));
        assert_eq!(device.physical(), (50, 50));
        device.give_physical(20);
        assert_eq!(device.physical(), (30, 50));
        assert_eq!(device.free_bytes(), 20);
        assert_eq!(books.device(0).physical(), (0, 0));
    }

    #[test]
    fn the_json_has_the_agreed_layout() {
        let mut books = Books::new(&[spec(0, 100, 0)], 7, None);
        books.device_mut(0).allocated(Kind::Managed, 3);
        let zero = r#"{"current":0,"peak":0,"allocations":0,"frees":0}"#;
        let none = r#"{"current":0,"peak":0}"#;
        let three = r#"{"current":3,"peak":3,"allocations":1,"frees":0}"#;
        assert_eq!(
            books.json(),
            format!(
                "{{\"devices\":[{{\"ordinal\":0,\"uuid\":\"{}\",\"total_bytes\":100,\
                 \"context_bytes\":7,\"kinds\":{{\"device\":{zero},\"managed\":{three},\
                 \"async\":{zero},\"vmm\":{zero},\"array\":{zero},\"graph\":{zero}}},\"driver\":{three},\
                 \"host\":{zero},\"registered\":{zero},\
                 \"pinned\":{zero},\"physical\":{none},\"resident\":{none},\
                 \"context\":{none},\"module\":{none},\"lingering\":{none}}}]}}\n",
                spec(0, 100, 0).uuid_text()
            )
        );
    }
}
