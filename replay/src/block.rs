//! A live block.

use gpumem_capture::{EventFlags, Seq};

use crate::coded::coded;
use crate::ids::KeyId;

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
}

coded! {
    Block { bytes, key, seq, flags }
}
