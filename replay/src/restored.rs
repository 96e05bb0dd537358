//! What a replay has of records that are gone: a state, with what it could not keep.

use gpumem_capture::{Nanos, Seq};

use crate::serialize::serialize;

/// What a replay whose state has a limit could not keep.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Evicted {
    /// Stacks that held nothing, and nothing at a peak: what they did in all stands under
    /// [`StackKey::EVICTED`].
    pub stacks: u64,
    /// Live blocks that were merged: their bytes stand there too.
    pub blocks: u64,
    /// Bytes of those.
    pub bytes: u64,
    /// Blocks of a device's peak that were merged.
    pub peak_blocks: u64,
}

/// That the first records came as a state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Restored {
    /// It stood for all records before this one.
    pub from: Seq,
    /// Steps that had ended then.
    pub steps: u64,
    /// Time of the last of them.
    pub last: Nanos,
    /// Whether it could be read.
    pub is_readable: bool,
}

serialize! {
    Evicted { stacks, blocks, bytes, peak_blocks }
}
