//! How the memory of the recorded pool was divided up: which of it was surely free.
//!
//! The allocator joins free blocks that are beside one another, takes the beginning of one, and leaves the rest behind it.
//! So a block behind which there is free memory of its segment was split off, and is no larger than it had to be.

use std::collections::BTreeMap;

use gpumem_capture::{Definition, DeviceOrdinal, Event, EventKind, Level};

use crate::library::AllocatorLibrary;

/// One device's.
#[derive(Debug)]
pub(crate) struct Layout {
    device: DeviceOrdinal,
    library: AllocatorLibrary,
    /// Segments, by where they begin: where they end.
    segments: BTreeMap<u64, u64>,
    /// Blocks that are held or may be waiting for a stream.
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

    /// A block is taken; whether it was surely split off a larger one.
    pub(crate) fn take(&mut self, ptr: u64, bytes: u64) -> bool {
        let end = ptr.saturating_add(bytes);
        remove(&mut self.taken, ptr, end);
        let next = self.taken.range(end..).next().map(|(next, _)| *next);
        let segment = self.segments.range(..=ptr).next_back();
        let segment = segment.map_or(end, |(_, segment)| *segment);
        self.taken.insert(ptr, end);
        next.map_or(segment, |next| segment.min(next)) > end
    }

    /// A block is free.
    pub(crate) fn free(&mut self, ptr: u64) {
        self.taken.remove(&ptr);
    }
}

/// Takes out what overlaps a range.
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
        // The next segment is another one, though it follows at once.
        assert!(!layout.take(1040, 60));
        layout.free(1000);
        assert!(!layout.take(1000, 40));
        layout.free(1040);
        layout.free(1000);
        assert!(layout.take(1000, 40));
        // What was there and went unseen is there no longer.
        assert!(!layout.take(1020, 80));
        assert!(!layout.take(1000, 20));
    }
}
