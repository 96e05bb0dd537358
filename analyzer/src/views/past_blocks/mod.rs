//! The history of blocks, for pictures of memory over time with each block, and for a map of memory at any event.
//!
//! A capture is followed again after it has been read. If it has more blocks than there is room for, those are kept
//! that are largest in a picture of the whole run, and all of some stretches.

mod follow;
mod keep;
mod live;
mod spans;

use gpumem_capture::{DeviceOrdinal, EventFlags, Level, Nanos, Seq};

use crate::replay::{Category, StackKey};

pub use follow::FollowBlocks;
pub use keep::{DetailRange, Room};
pub use spans::{PastSpan, PastSpans, SpanKind};

/// A block that was live at some time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PastBlock {
    /// Its address, or its handle: see [`PastBlock::is_handle`].
    pub address: u64,
    /// Its bytes.
    pub bytes: u64,
    /// By how much it is larger than the requested bytes, if known.
    pub slack: Option<u32>,
    /// The part of the framework's pool that it came from.
    pub placement: Placed,
    /// Whether it is memory of a VMM handle, which is located where it is mapped.
    pub is_handle: bool,
    /// What kind of memory it is.
    pub flags: EventFlags,
    /// The stacks that allocated it, regardless of category.
    pub stacks: StackKey,
    /// Its category.
    pub category: Category,
    /// When it was allocated. For blocks that were live at the start of a bounded capture: the event, and the start
    /// time of the capture.
    pub made: (Seq, Nanos),
    /// When it was freed; `None` if it is live at the end.
    pub ended: Option<(Seq, Nanos)>,
    /// The stacks that freed it; `None` if they were not recorded, or if it is live at the end.
    pub freed_by: Option<StackKey>,
    /// When the pool could reuse it, if it waited for other streams; otherwise `None`.
    pub released: Option<(Seq, Nanos)>,
}

/// The part of the framework's pool that a block came from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Placed {
    /// The default stream's part of the default pool.
    #[default]
    Default,
    /// It is not known.
    Unknown,
    /// The part with this index in [`PastBlocks::placements`].
    Part(u32),
}

/// A part of the framework's pool.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Placement {
    /// The device.
    pub device: DeviceOrdinal,
    /// The stream's handle.
    pub stream: u64,
    /// The framework's id of a pool; zeros for the default one.
    pub pool: (u64, u64),
}

/// The blocks of a device and level.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PastLevel {
    /// The device.
    pub device: DeviceOrdinal,
    /// The level.
    pub level: Level,
    /// Kept blocks, in the order of their allocation.
    pub blocks: Vec<PastBlock>,
    /// The number of all blocks in the run or in the part of it.
    pub count: u64,
    /// Whether all of them are kept.
    pub is_all: bool,
    /// The stretches without omitted blocks.
    pub whole: Vec<DetailRange>,
    /// Event, time and live bytes at the start of a part of the run; `None` for the whole run.
    pub begins: Option<(Seq, Nanos, u64)>,
}

/// The blocks of all devices.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PastBlocks {
    /// By device and level.
    pub levels: Vec<PastLevel>,
    /// The history of mappings, address space, reservations and other objects that are not blocks.
    pub spans: PastSpans,
    /// The parts of the framework's pool.
    pub placements: Vec<Placement>,
}
