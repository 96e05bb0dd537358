//! What requested and physical bytes are for.

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
    /// What the first managed memory on the device has cost contexts beside itself.
    Touched,
    /// Contexts, with what their limits cost.
    Context,
    /// Loaded modules.
    Module,
    /// What this process has released while another one still has it open.
    Lingering,
}

impl Holding {
    /// Every one, in the order in which the books list them.
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
