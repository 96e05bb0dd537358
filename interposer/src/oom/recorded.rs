//! A failure that is in the capture.

use gpumem_capture::{Seq, StackId};

use crate::failed::Failed;

/// A failure with what is known of it since it was recorded.
#[derive(Clone, Copy)]
pub(super) struct Recorded {
    pub(super) failed: Failed,
    pub(super) seq: Seq,
    pub(super) stacks: (StackId, StackId),
    /// What the driver was asked for and had not: a tensor's segment is larger than the tensor. `None`: the framework
    /// refused by itself.
    pub(super) refused: Option<u64>,
    /// What is free by the driver's word, where it was asked on the failing thread.
    pub(super) free: Option<u64>,
}
