//! What is kept of a block while it is live.

use gpumem_capture::{DeviceOrdinal, EventFlags, StackId};

/// A live block.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Block {
    pub(crate) bytes: u64,
    /// The context that owns it, or the pool that stream-ordered memory came from; 0: its device alone.
    pub(crate) context: u64,
    pub(crate) device: DeviceOrdinal,
    pub(crate) flags: EventFlags,
    /// The Python stack of its allocation.
    pub(crate) py_stack: StackId,
}

impl Block {
    /// The context that owns it; 0: its device alone.
    pub(crate) fn owner(&self) -> u64 {
        match self.pool() {
            Some(_) => 0,
            None => self.context,
        }
    }

    /// The pool that it came from, if it is stream-ordered.
    pub(crate) fn pool(&self) -> Option<u64> {
        let pooled = self.flags.contains(EventFlags::STREAM_ORDERED);
        pooled.then_some(self.context)
    }
}
