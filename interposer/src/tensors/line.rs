//! A cache line of the table of tensors: the data of two of them.
//!
//! ```text
//!  0                       24                       48          52    64
//!  ┌───────────────────────┬────────────────────────┬───────────┬─────┐
//!  │ one tensor            │ another one            │ elsewhere │     │
//!  └───────────────────────┴────────────────────────┴───────────┴─────┘
//! ```

use gpumem_capture::{DeviceOrdinal, EventFlags, StackId};
use gpumem_tracker::Block;

/// A tensor in its line; the address 0 is an empty entry. It belongs to the line's device, and to
/// no context.
#[derive(Clone, Copy)]
pub(super) struct Entry {
    pub(super) ptr: u64,
    bytes: u64,
    py_stack: StackId,
    flags: EventFlags,
    /// Recorded roles: a bit for each.
    pub(super) roles: u8,
}

impl Entry {
    /// None if the block does not fit.
    #[inline(always)]
    pub(super) fn new(ptr: u64, block: &Block) -> Option<Self> {
        let Block {
            bytes,
            context,
            device: _,
            flags,
            py_stack,
        } = *block;
        (ptr != 0 && context == 0).then_some(Self {
            ptr,
            bytes,
            py_stack,
            flags,
            roles: 0,
        })
    }

    #[inline(always)]
    pub(super) fn block(&self, device: DeviceOrdinal) -> Block {
        Block {
            bytes: self.bytes,
            context: 0,
            device,
            flags: self.flags,
            py_stack: self.py_stack,
        }
    }
}

/// Two tensors in a cache line; all zeros are an empty line.
#[repr(C, align(64))]
pub(super) struct Line {
    pub(super) places: [Entry; 2],
    /// The number of the line's tensors that are in the map.
    pub(super) elsewhere: u32,
}

const _: () = assert!(size_of::<Line>() == 64);

impl Line {
    /// The entry of the tensor at `ptr`; with 0, a free entry.
    #[inline(always)]
    pub(super) fn place(&mut self, ptr: u64) -> Option<&mut Entry> {
        self.places.iter_mut().find(|entry| entry.ptr == ptr)
    }

    /// Removes a tensor.
    #[inline(always)]
    pub(super) fn take(&mut self, ptr: u64) -> Option<Entry> {
        let place = self.place(ptr).filter(|entry| entry.ptr != 0)?;
        let entry = *place;
        place.ptr = 0;
        Some(entry)
    }
}
