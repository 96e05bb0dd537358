//! Live blocks.

use gpumem_capture::{EventFlags, Nanos, Seq};

use super::keep::Span;
use super::{PastBlock, Placed};
use crate::replay::{Category, KeyId, Replay};

/// An address, and whether it is a VMM handle.
pub(super) type Address = (u64, bool);

/// A live block. Most are not kept, so it has only the fields that are needed at its end.
#[derive(Clone, Copy, Debug)]
pub(super) struct Live {
    pub bytes: u64,
    pub made: (Seq, Nanos),
    pub key: KeyId,
    pub slack: Option<u32>,
    pub placement: Placed,
    pub flags: EventFlags,
    /// Whether another stream uses it, so that its release is deferred.
    pub is_shared: bool,
}

impl Live {
    pub fn span(&self, ended: Option<(Seq, Nanos)>) -> Span {
        Span {
            bytes: self.bytes,
            made: self.made,
            ended,
        }
    }

    pub fn past(
        &self,
        replay: &Replay,
        (address, is_handle): Address,
        category: Category,
        ended: Option<(Seq, Nanos)>,
    ) -> PastBlock {
        PastBlock {
            address,
            bytes: self.bytes,
            slack: self.slack,
            placement: self.placement,
            is_handle,
            flags: self.flags,
            stacks: replay.stacks(self.key).without_category(),
            category,
            made: self.made,
            ended,
            freed_by: None,
            released: None,
        }
    }
}
