//! Blocks over their lives: what a picture of memory over time draws one by one, and a map of the memory at any event.
//!
//! A capture is followed once more after it has been read. Where it has more blocks than there is room for, those are kept
//! that take most of a picture of the whole run, and all of some stretches of it.

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
    /// By how much it is larger than what was asked for, where that is known.
    pub slack: Option<u32>,
    /// Where the framework's pool took it from.
    pub placement: Placed,
    /// Whether it is memory of a VMM handle, which lies where it is mapped.
    pub is_handle: bool,
    /// What kind of memory it is.
    pub flags: EventFlags,
    /// The stacks that allocated it, of all categories.
    pub stacks: StackKey,
    /// What it was for.
    pub category: Category,
    /// When it was allocated. Of what a bounded capture began with: its event, and the time that the capture begins.
    pub made: (Seq, Nanos),
    /// When it was freed; `None`: it is live at the end.
    pub ended: Option<(Seq, Nanos)>,
    /// The stacks that freed it; `None`: they were not recorded, or it is live at the end.
    pub freed_by: Option<StackKey>,
    /// When the pool could use it again, where it waited for other streams: `None` where it did not.
    pub released: Option<(Seq, Nanos)>,
}

/// Where the framework's pool took a block from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Placed {
    /// From the default stream's part of the default pool.
    #[default]
    Default,
    /// That is not known.
    Unknown,
    /// From the part with this place in [`PastBlocks::placements`].
    Part(u32),
}

/// A part of the framework's pool.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Placement {
    /// On which device.
    pub device: DeviceOrdinal,
    /// The stream's handle.
    pub stream: u64,
    /// The framework's id of a pool; zeros: the default one.
    pub pool: (u64, u64),
}

/// The blocks of a device and level.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PastLevel {
    /// On which device.
    pub device: DeviceOrdinal,
    /// At which level.
    pub level: Level,
    /// Those that are kept, in the order in which they were allocated.
    pub blocks: Vec<PastBlock>,
    /// How many there were in all, of a part of the run in it.
    pub count: u64,
    /// Whether all of them are kept.
    pub is_all: bool,
    /// The stretches of which all are kept.
    pub whole: Vec<DetailRange>,
    /// What was live where a part of the run begins: its event, its time and bytes; `None`: it is all of the run.
    pub begins: Option<(Seq, Nanos, u64)>,
}

/// The blocks of all devices.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PastBlocks {
    /// By device and level.
    pub levels: Vec<PastLevel>,
    /// Mappings, address space, reservations and what else is no block, over their lives.
    pub spans: PastSpans,
    /// The parts of the framework's pool.
    pub placements: Vec<Placement>,
}
