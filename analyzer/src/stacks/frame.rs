//! A frame of a mixed stack, and notes for missing frames.

use gpumem_capture::PyFrame;

use crate::names::NativeFrame;
use gpumem_replay::NodeId;

/// A frame of a mixed stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Frame {
    /// A Python function.
    Python(PyFrame),
    /// A native function.
    Native(NativeFrame),
    /// A node of autograd ran, which the frames before it made.
    Backward(NodeId),
    /// A note instead of frames.
    Note(&'static str),
}

pub(super) const CUT_OFF: Frame = Frame::Note("(older frames cut off)");
pub(super) const NO_PYTHON: Frame = Frame::Note("(Python stack not in the capture)");
pub(super) const NO_NATIVE: Frame = Frame::Note("(native stack not in the capture)");
pub(super) const OUT_OF_STEP: Frame =
    Frame::Note("(native frames under Python not shown: they do not fit its frames)");
pub(super) const NOT_SAMPLED: Frame = Frame::Note("(not sampled)");
pub(super) const EVICTED: Frame = Frame::Note("(other stacks: bounded)");
pub(super) const NO_STACK: Frame = Frame::Note("(no stack)");
pub(super) const LOST: Frame = Frame::Note("(forward line lost)");
pub(super) const NO_FORWARD: Frame = Frame::Note("(no Python in the forward)");
