//! Newtypes that carry units and meanings.

use core::fmt;

macro_rules! newtype {
    ($($(#[$doc:meta])* $name:ident($inner:ty);)*) => {$(
        $(#[$doc])*
        #[repr(transparent)]
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub struct $name(pub $inner);
    )*};
}

newtype! {
    /// Index of a record's first slot since the capture began; orders all records.
    Seq(u64);
    /// Nanoseconds of CLOCK_MONOTONIC since the capture was opened.
    Nanos(u64);
    /// An interned Python or native stack. 0 is "no stack".
    StackId(u32);
    /// An interned Python code object. 0 is "unknown".
    CodeId(u32);
    /// A loaded module (shared library); each load has a separate id. 0 is "unknown".
    ModuleId(u32);
    /// A PyTorch module object (`torch.nn.Module`). 0 is "unknown".
    NnModuleId(u32);
    /// A recorded thread; its kernel thread id.
    ThreadId(u32);
    /// An interned name of an API function, as printed by the account. 0 is "none".
    ApiId(u16);
    /// A device ordinal as the recorded process sees it; [`DeviceOrdinal::NONE`] is "no device".
    DeviceOrdinal(u8);
    /// Where a framework's pool took a block from ([`crate::DefKind::PLACEMENT`]), of the event's device.
    PlacementId(u8);
    /// The allocator that an event belongs to.
    Level(u8);
}

impl StackId {
    /// No stack was taken.
    pub const NONE: Self = Self(0);
    /// A stack whose definition a bounded capture has evicted. Never recorded.
    pub const EVICTED: Self = Self(u32::MAX);

    /// Stacks are sampled ([`crate::ProcessKey::STACK_SAMPLE`]), and this allocation was not sampled.
    pub const NOT_SAMPLED: Self = Self(u32::MAX - 1);

    /// Whether it refers to a definition.
    pub fn is_named(self) -> bool {
        self == Self::NONE || self == Self::EVICTED || self == Self::NOT_SAMPLED
    }
}

impl PlacementId {
    /// The default stream's part of the default pool.
    pub const DEFAULT: Self = Self(0);
    /// Unknown.
    pub const UNKNOWN: Self = Self(255);
}

impl DeviceOrdinal {
    /// The event belongs to no device.
    pub const NONE: Self = Self(0xff);
}

impl Level {
    /// Inside a framework's pool: PyTorch's tensors.
    pub const TENSOR: Self = Self(0);
    /// Device memory from CUDA: memory that the caller requested from the driver, and VMM handles.
    pub const DRIVER: Self = Self(1);
    /// Pinned host memory from CUDA.
    pub const HOST: Self = Self(2);
    /// Physical memory on the card: 2 MiB pages, VMM handles, memory behind pools and graphs.
    pub const PHYSICAL: Self = Self(3);
    /// How many levels have counters.
    pub const COUNT: usize = 4;

    /// The level's name in every output.
    pub fn name(self) -> &'static str {
        match self {
            Self::TENSOR => "tensor",
            Self::DRIVER => "driver",
            Self::HOST => "host",
            Self::PHYSICAL => "physical",
            _ => "unknown",
        }
    }
}

impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
