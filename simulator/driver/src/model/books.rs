//! The books: what was asked for and what the card gave, exact at every moment.
//!
//! Two ledgers are kept for each device. *Requested* bytes are what callers asked for, by kind;
//! their sum is what gpumem must report at its driver level, to the byte. *Physical* bytes are
//! whole pages, pool chunks and contexts: what NVML and `cuMemGetInfo` say.

use gpumem_cuda_abi::CuResult;
use gpumem_sim_machine::DeviceSpec;
use std::fmt::Write;

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

/// The books of one device.
#[derive(Clone, Debug)]
pub struct DeviceBooks {
    total_bytes: u64,
    other_bytes: u64,
    kinds: [Counter; Kind::ALL.len()],
    driver: Counter,
    physical: u64,
    physical_peak: u64,
}

impl DeviceBooks {
    fn new(total_bytes: u64, other_bytes: u64) -> Self {
        Self {
            total_bytes,
            other_bytes,
            kinds: Default::default(),
            driver: Counter::default(),
            physical: 0,
            physical_peak: 0,
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

    /// Physical bytes: now, and at most.
    pub fn physical(&self) -> (u64, u64) {
        (self.physical, self.physical_peak)
    }

    /// Physical bytes that are still free: neither this process nor another has them.
    pub fn free_bytes(&self) -> u64 {
        self.total_bytes - self.other_bytes - self.physical
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
        }
    }

    /// Writes down that such an allocation is gone.
    pub fn freed(&mut self, kind: Kind, bytes: u64) {
        self.kinds[kind as usize].remove(bytes);
        if kind.is_device_memory() {
            self.driver.remove(bytes);
        }
    }

    /// Takes physical memory.
    ///
    /// # Errors
    /// `OUT_OF_MEMORY`, with nothing changed, if less than that is free.
    pub fn take_physical(&mut self, bytes: u64) -> Result<(), CuResult> {
        if bytes > self.free_bytes() {
            return Err(CuResult::OUT_OF_MEMORY);
        }
        self.physical += bytes;
        self.physical_peak = self.physical_peak.max(self.physical);
        Ok(())
    }

    /// Gives physical memory back.
    pub fn give_physical(&mut self, bytes: u64) {
        debug_assert!(bytes <= self.physical, "more given back than was taken");
        self.physical -= bytes;
    }

    /// A figure by the name that it has in the JSON: current and peak.
    pub fn by_name(&self, name: &str) -> Option<(u64, u64)> {
        let of = |counter: Counter| (counter.current, counter.peak);
        match name {
            "driver" => Some(of(self.driver)),
            "physical" => Some(self.physical()),
            "total" => Some((self.total_bytes, self.total_bytes)),
            _ => {
                let kind = Kind::ALL.into_iter().find(|kind| kind.name() == name)?;
                Some(of(self.kind(kind)))
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
        let (current, peak) = self.physical();
        let _ = write!(
            out,
            ",\"physical\":{{\"current\":{current},\"peak\":{peak}}}"
        );
    }
}

/// The books of every device that the process sees.
#[derive(Clone, Debug)]
pub struct Books {
    devices: Vec<(String, DeviceBooks)>,
    context_bytes: u64,
}

impl Books {
    /// Empty books for these devices.
    pub fn new<'a>(devices: impl IntoIterator<Item = &'a DeviceSpec>, context_bytes: u64) -> Self {
        let empty = |spec: &DeviceSpec| {
            let books = DeviceBooks::new(spec.total_bytes, spec.other_bytes);
            (spec.uuid_text(), books)
        };
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
            index,
            total_bytes,
            reserved_bytes: 0,
            other_bytes,
            compute_capability: (9, 0),
        }
    }

    fn books() -> Books {
        Books::new(&[spec(0, 100, 0), spec(1, 50, 0)], 7)
    }

    #[test]
    fn what_other_processes_have_is_not_free() {
        let mut books = Books::new(&[spec(0, 100, 30)], 7);
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
        let mut books = Books::new(&[spec(0, 100, 0)], 7);
        books.device_mut(0).allocated(Kind::Managed, 3);
        let zero = r#"{"current":0,"peak":0,"allocations":0,"frees":0}"#;
        let three = r#"{"current":3,"peak":3,"allocations":1,"frees":0}"#;
        assert_eq!(
            books.json(),
            format!(
                "{{\"devices\":[{{\"ordinal\":0,\"uuid\":\"{}\",\"total_bytes\":100,\
                 \"context_bytes\":7,\"kinds\":{{\"device\":{zero},\"managed\":{three},\
                 \"async\":{zero},\"vmm\":{zero},\"array\":{zero},\"graph\":{zero}}},\"driver\":{three},\
                 \"host\":{zero},\"registered\":{zero},\
                 \"physical\":{{\"current\":0,\"peak\":0}}}}]}}\n",
                spec(0, 100, 0).uuid_text()
            )
        );
    }
}
