//! The division of the recorded pool's memory, to find the parts that were certainly free.
//!
//! The allocator merges neighbouring free blocks, takes the beginning of one, and leaves the rest behind it. So a block
//! that is followed by free memory of its segment was split off a larger block, and is no larger than necessary.

use std::collections::BTreeMap;

use gpumem_capture::{Definition, DeviceOrdinal, Event, EventKind, Level};

use crate::library::AllocatorLibrary;

/// The layout of one device's pool.
#[derive(Debug)]
pub(crate) struct Layout {
    device: DeviceOrdinal,
    library: AllocatorLibrary,
    /// The end of each segment, by its start.
    segments: BTreeMap<u64, u64>,
    /// The end of each block that is allocated or may be waiting for a stream, by its start.
    taken: BTreeMap<u64, u64>,
}

impl Layout {
    pub(crate) fn new(device: DeviceOrdinal) -> Self {
        Self {
            device,
            library: AllocatorLibrary::default(),
            segments: BTreeMap::new(),
            taken: BTreeMap::new(),
        }
    }

    pub(crate) fn define(&mut self, definition: &Definition) {
        self.library.define(definition);
    }

    pub(crate) fn see(&mut self, event: &Event) {
        if event.device != self.device || event.level != Level::DRIVER {
            return;
        }
        match event.kind {
            EventKind::ALLOC if self.library.has(event.aux) => {
                let end = event.ptr.saturating_add(event.bytes);
                self.segments.insert(event.ptr, end);
            }
            EventKind::FREE => drop(self.segments.remove(&event.ptr)),
            _ => {}
        }
    }

    /// A block is allocated; returns whether it was certainly split off a larger one.
    pub(crate) fn take(&mut self, ptr: u64, bytes: u64) -> bool {
        let end = ptr.saturating_add(bytes);
        remove(&mut self.taken, ptr, end);
        let next = self.taken.range(end..).next().map(|(next, _)| *next);
        let segment = self.segments.range(..=ptr).next_back();
        let segment = segment.map_or(end, |(_, segment)| *segment);
        self.taken.insert(ptr, end);
        next.map_or(segment, |next| segment.min(next)) > end
    }

    /// A block is freed.
    pub(crate) fn free(&mut self, ptr: u64) {
        self.taken.remove(&ptr);
    }
}

/// Removes the ranges that overlap a range.
fn remove(ranges: &mut BTreeMap<u64, u64>, start: u64, end: u64) {
    while let Some((&ptr, _)) = ranges
        .range(..end)
        .next_back()
        .filter(|(_, until)| **until > start)
    {
        ranges.remove(&ptr);
    }
}

#[cfg(test)]
mod tests {
    use gpumem_capture::ModuleId;

    use super::*;

    #[test]
    fn a_block_with_free_memory_behind_it_was_split_off() {
        let mut layout = Layout::new(DeviceOrdinal(0));
        layout.define(&Definition::Module {
            id: ModuleId(1),
            start: 10,
            end: 20,
            bias: 0,
            build_id: Vec::new(),
            path: "/lib/libc10_cuda.so".into(),
        });
        for ptr in [1000, 1100] {
            layout.see(&Event {
                kind: EventKind::ALLOC,
                level: Level::DRIVER,
                ptr,
                bytes: 100,
                aux: 15,
                ..Event::default()
            });
        }
        assert!(layout.take(1000, 40));
        // The next segment is a different one, though it follows without a gap.
        assert!(!layout.take(1040, 60));
        layout.free(1000);
        assert!(!layout.take(1000, 40));
        layout.free(1040);
        layout.free(1000);
        assert!(layout.take(1000, 40));
        // A block that was there, and whose free was not recorded, is gone.
        assert!(!layout.take(1020, 80));
        assert!(!layout.take(1000, 20));
    }
}
