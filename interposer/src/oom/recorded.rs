//! A failure that is in the capture.

use gpumem_capture::{Seq, StackId};

use crate::failed::Failed;

/// A failure, with data that became known since it was recorded.
#[derive(Clone, Copy)]
pub(super) struct Recorded {
    pub(super) failed: Failed,
    pub(super) seq: Seq,
    pub(super) stacks: (StackId, StackId),
    /// The bytes that the driver could not allocate: a tensor's segment is larger than the tensor. `None`: the
    /// framework refused by itself.
    pub(super) refused: Option<u64>,
    /// Free bytes according to the driver, if it was queried on the failing thread.
    pub(super) free: Option<u64>,
}
