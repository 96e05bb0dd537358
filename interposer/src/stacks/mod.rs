//! Stacks of the calling thread.
use gpumem_capture::{StackId, Writer};

/// Which stacks are taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stacks {
    /// Both.
    Mixed,
    /// Python only.
    Python,
    /// Native only.
    Native,
    /// None.
    Off,
}

/// Takes the stacks.
pub fn take(_: &'static Writer, _: Stacks) -> (StackId, StackId) {
    (StackId::NONE, StackId::NONE)
}
