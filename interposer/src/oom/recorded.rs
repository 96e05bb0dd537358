//! A failure that is in the capture.

use gpumem_capture::{Seq, StackId};

use crate::failed::Failed;

/// A failure, with data that became known since it was recorded.
#[derive(Clone, Copy)]
pub(super) struct Recorded {
    pub(super) failed: Failed,
    pub(super) seq: Seq,
    pub(super) stacks: (StackId, StackId),
    /// Free bytes according to the driver, if it was queried on the failing thread.
    pub(super) free: Option<u64>,
}
