//! What a node of PyTorch's autograd made.

use gpumem_capture::StackId;

/// What a node of PyTorch's autograd made while it ran: see `DefKind::BACKWARD` of the capture.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Backward {
    /// Stack of the forward that made the node; none if there is none.
    pub(crate) forward: StackId,
    /// Which forward line made the node is lost.
    pub(crate) lost: bool,
    /// The thread's own Python stack.
    pub(crate) own: StackId,
    /// How many of its newest frames are newer than the node's run.
    pub(crate) newer: u32,
    /// Address of the table of the class's virtual functions.
    pub(crate) class: usize,
}
