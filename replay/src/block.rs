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
}

serialize! {
    Block { bytes, key, seq, flags }
}
