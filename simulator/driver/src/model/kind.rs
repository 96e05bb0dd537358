//! Kinds of requested bytes, and purposes of physical bytes.

/// The kind of an allocation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// `cuMemAlloc`, `cuMemAllocPitch` (pitch × height).
    Device,
    /// `cuMemAllocManaged`.
    Managed,
    /// `cuMemAllocAsync`, `cuMemAllocFromPoolAsync`.
    Async,
    /// `cuMemCreate` handles on the device, mapped or not.
    Vmm,
    /// Arrays and mipmapped arrays (bytes from their descriptors).
    Array,
    /// Memory of graphs' allocation nodes, from a launch until it is freed.
    Graph,
    /// Pinned host memory: `cuMemAllocHost`, `cuMemHostAlloc`, `cuMemCreate` on the host. Not
    /// device memory.
    Host,
    /// Host memory of the program: `cuMemHostRegister`. Not device memory.
    Registered,
}

impl Kind {
    /// Every kind, in the order of the books.
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

/// Physical bytes that are counted separately.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Holding {
    /// Managed memory that is on the device now.
    Resident,
    /// Memory that the first managed memory on the device costs contexts in addition.
    Touched,
    /// Contexts, including the cost of their limits.
    Context,
    /// Loaded modules.
    Module,
    /// Memory that this process has released while another one still has it open.
    Lingering,
}

impl Holding {
    /// Every purpose, in the order of the books.
    pub const ALL: [Self; 5] = [
        Self::Resident,
        Self::Touched,
        Self::Context,
        Self::Module,
        Self::Lingering,
    ];

    /// Its name in the books.
    pub fn name(self) -> &'static str {
        match self {
            Self::Resident => "resident",
            Self::Touched => "touched",
            Self::Context => "context",
            Self::Module => "module",
            Self::Lingering => "lingering",
        }
    }
}
