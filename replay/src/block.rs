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
    /// The turn in which it was made: see [`crate::Category`].
    pub(crate) turn: u32,
    /// Whether no module had been called in that turn.
    pub(crate) is_early: bool,
    /// Whether what it is for was told, or judged for good.
    pub(crate) is_told: bool,
}

/// By what a block is made.
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
