//! A live block.

use gpumem_capture::{EventFlags, Seq};

use crate::ids::KeyId;
use crate::serialize::serialize;

/// A live block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Block {
    /// Its bytes.
    pub bytes: u64,
    /// The stacks that allocated it.
    pub key: KeyId,
    /// The event that allocated it.
    pub seq: Seq,
    /// What kind of memory it is.
    pub flags: EventFlags,
    /// The turn in which it was allocated: see [`crate::Category`].
    pub(crate) turn: u32,
    /// Whether no module had been called in that turn.
    pub(crate) is_early: bool,
    /// Whether its category is final: recorded as a role, or decided.
    pub(crate) is_told: bool,
}

/// What determines a block's category when it is allocated.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Made {
    pub(crate) key: KeyId,
    /// Of a tensor's block, the key without a category.
    pub(crate) base: KeyId,
    /// See [`Block`].
    pub(crate) turn: u32,
    pub(crate) is_early: bool,
}

serialize! {
    Block { bytes, key, seq, flags, turn, is_early, is_told }
}
