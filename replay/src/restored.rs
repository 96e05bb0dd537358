//! The state that replaces a bounded capture's first records, and what it could not keep.

use gpumem_capture::{Nanos, Seq};

use crate::serialize::serialize;

/// What a replay whose state has a limit did not keep.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Evicted {
    /// Stacks that held nothing, and nothing at a peak. Their totals count for
    /// [`StackKey::EVICTED`].
    pub stacks: u64,
    /// Live blocks that were merged; their bytes count there too.
    pub blocks: u64,
    /// Bytes of the merged blocks.
    pub bytes: u64,
    /// Blocks of a device's peak that were merged.
    pub peak_blocks: u64,
}

/// The state that replaces the first records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Restored {
    /// It replaces all records before this one.
    pub from: Seq,
    /// Steps that had ended before it.
    pub steps: u64,
    /// Time of the last record that it replaces.
    pub last: Nanos,
    /// Whether it was readable.
    pub is_readable: bool,
}

serialize! {
    Evicted { stacks, blocks, bytes, peak_blocks }
}
