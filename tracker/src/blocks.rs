//! Blocks: what programs requested from the driver, and the physical memory behind each.

use gpumem_capture::{DeviceOrdinal, Event, EventFlags, EventKind, Level, Seq};

use crate::state::alias::Alias;
use crate::state::block::{Block, Key};
use crate::state::origin::Origin;
use crate::state::pages;
use crate::state::pending::{Pending, Then, Undo};
use crate::tracker::Tracker;

/// The physical memory behind a block.
enum Behind {
    /// Pages that other blocks may share.
    Pages,
    /// This many bytes that only the block uses.
    Own(u64),
    /// Memory that is counted separately, or unknown.
    Other,
}

fn behind(key: Key, block: &Block) -> Behind {
    const OTHERS: [EventFlags; 3] = [
        EventFlags::STREAM_ORDERED,
        EventFlags::GRAPH,
        EventFlags::MANAGED,
    ];
    if key.level != Level::DRIVER || OTHERS.iter().any(|flag| block.flags.contains(*flag)) {
        Behind::Other
    } else if key.is_handle {
        Behind::Own(block.bytes)
    } else if block.flags.contains(EventFlags::ARRAY) {
        Behind::Own(pages::whole(block.bytes))
    } else {
        Behind::Pages
    }
}

impl Tracker {
    /// Records a block that a call has returned; `caller` is the return address of the call. If another block was live
    /// at the address, its release was missed. Memory at a mapped address is its handle's, which is counted: code that
    /// has replaced the driver's function serves requests from it. Then the block is an alias. Mappings whose end was
    /// missed must have ended before ([`Tracker::missed_unmapping`]).
    pub fn allocated(&mut self, key: Key, block: Block, caller: u64, origin: Origin) {
        if self.is_mapped(key) {
            let alias = Alias {
                bytes: block.bytes,
                device: block.device,
                context: block.owner(),
                flags: block.flags,
            };
            return self.opened(key.ptr, alias, caller, origin);
        }
        if let Some(stale) = self.blocks.insert(key, block) {
            self.missed_releases += 1;
            self.push(Event {
                flags: stale.flags.with(EventFlags::MISMATCH),
                ..stale.event(EventKind::FREE, key, origin.without_stacks())
            });
            self.card(EventKind::FREE, key, &stale, origin);
        }
        self.push(Event {
            aux: caller,
            ..block.event(EventKind::ALLOC, key, origin)
        });
        self.card(EventKind::ALLOC, key, &block, origin);
    }

    /// Records a release that is about to be tried; `extra` adds flags. Pass the result to [`Tracker::settle`] when the
    /// call has returned.
    pub fn releasing(&mut self, key: Key, extra: EventFlags, origin: Origin) -> Pending {
        let mut pending = Pending::default();
        let key = self.released_by(key);
        if !self.release(key, extra, origin, &mut pending) {
            let alias = key.level == Level::DRIVER && !key.is_handle;
            let is_closed = alias && self.close_alias(key.ptr, origin, &mut pending);
            if !is_closed && !self.is_mapped(key) {
                // Recorded once the call has succeeded, because a program may try to release an invalid pointer.
                pending.then = Some(Then::UnknownFree { key, flags: extra });
            }
        }
        pending
    }

    /// Whether a key of device memory is an address that is mapped to a handle.
    pub fn is_mapped(&self, key: Key) -> bool {
        key.level == Level::DRIVER && !key.is_handle && self.handle_at(key.ptr).is_some()
    }

    /// The key of the block that a call releases. The calls for device memory also release host memory of pools and
    /// graphs.
    fn released_by(&self, key: Key) -> Key {
        if key.level != Level::DRIVER || key.is_handle || self.blocks.has(key) {
            return key;
        }
        let level = Level::HOST;
        let on_host = Key { level, ..key };
        let block = self.blocks.all.get(&on_host);
        let is_theirs = block.is_some_and(|block| {
            let of = |flag| block.flags.contains(flag);
            of(EventFlags::STREAM_ORDERED) || of(EventFlags::GRAPH)
        });
        if is_theirs { on_host } else { key }
    }

    /// The key of the block at an address that a graph's node allocates or frees.
    pub(crate) fn of_node(&self, ptr: u64) -> Key {
        self.released_by(Key {
            level: Level::DRIVER,
            is_handle: false,
            ptr,
        })
    }

    /// Removes a block and records it. Returns whether there was one.
    pub(crate) fn release(
        &mut self,
        key: Key,
        extra: EventFlags,
        origin: Origin,
        pending: &mut Pending,
    ) -> bool {
        let Some(block) = self.blocks.remove(key) else {
            return false;
        };
        let event = Event {
            flags: block.flags.with(extra),
            ..block.event(EventKind::FREE, key, origin)
        };
        let free = self.push_numbered(event);
        self.card(EventKind::FREE, key, &block, origin.without_stacks());
        pending.push(Undo::Block { key, block, free });
        true
    }

    /// Records that a recorded release has failed.
    pub(crate) fn cancel(&mut self, key: Key, block: Block, free: Seq, origin: Origin) {
        self.blocks.insert(key, block);
        self.push(Event {
            aux: free.0,
            ..block.event(EventKind::CANCEL, key, origin)
        });
        self.card(EventKind::ALLOC, key, &block, origin);
    }

    /// Records the release of a pointer that was not a live block.
    pub(crate) fn unknown_free(&mut self, key: Key, flags: EventFlags, origin: Origin) {
        self.push(Event {
            ptr: key.ptr,
            device: DeviceOrdinal::NONE,
            flags: flags.with(EventFlags::UNKNOWN_POINTER),
            ..origin.event(EventKind::FREE, key.level)
        });
    }

    /// The maximum number of bytes of a device that managed memory can use.
    pub fn managed(&self, device: DeviceOrdinal) -> u64 {
        if self.blocks.managed == 0 {
            return 0;
        }
        let here = |block: &&Block| block.device == device && block.is_managed();
        let all = self.blocks.all.values().filter(here);
        all.map(|block| pages::whole(block.bytes)).sum()
    }

    /// All live blocks, in arbitrary order.
    pub fn blocks(&self) -> impl Iterator<Item = (&Key, &Block)> {
        self.blocks.all.iter()
    }

    /// Records the physical memory that a block takes (ALLOC) or frees (FREE), after the block's own event.
    fn card(&mut self, kind: EventKind, key: Key, block: &Block, origin: Origin) {
        match behind(key, block) {
            Behind::Pages => {
                let spans = match kind {
                    EventKind::ALLOC => self.pages.hold(key.ptr, block.bytes),
                    _ => self.pages.release(key.ptr, block.bytes),
                };
                for (at, bytes) in spans.into_iter().filter(|(_, bytes)| *bytes != 0) {
                    self.card_event(kind, block.device, at, bytes, EventFlags::NONE, origin);
                }
            }
            Behind::Own(bytes) => {
                let both = EventFlags::VMM_HANDLE.with(EventFlags::ARRAY);
                let flags = EventFlags(block.flags.0 & both.0);
                self.card_event(kind, block.device, key.ptr, bytes, flags, origin);
            }
            Behind::Other => {}
        }
    }

    fn card_event(
        &mut self,
        kind: EventKind,
        device: DeviceOrdinal,
        ptr: u64,
        bytes: u64,
        flags: EventFlags,
        origin: Origin,
    ) {
        self.push(Event {
            ptr,
            bytes,
            device,
            flags,
            ..origin.event(kind, Level::PHYSICAL)
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_served_from_a_mapped_handle_is_counted_once() {
        const PAGE: u64 = 2 << 20;
        let origin = Origin::default();
        let mut tracker = Tracker::new();
        let key = |is_handle, ptr| Key {
            level: Level::DRIVER,
            is_handle,
            ptr,
        };
        let block = |bytes, flags| Block {
            bytes,
            flags,
            ..Block::default()
        };
        let handle = key(true, 0x5000);
        tracker.handle_made(handle, block(PAGE, EventFlags::VMM_HANDLE), 0, origin);
        tracker.mapped(8 * PAGE, PAGE, handle.ptr, origin);
        let kinds = |tracker: &mut Tracker| {
            let mut kinds = Vec::new();
            while let Some(event) = tracker.unwritten() {
                kinds.push(event.kind);
                tracker.written(None);
            }
            kinds
        };
        kinds(&mut tracker);
        let inside = key(false, 8 * PAGE + 512);
        tracker.allocated(inside, block(1000, EventFlags::NONE), 0, origin);
        assert_eq!(kinds(&mut tracker), [EventKind::ALIAS]);
        assert_eq!(tracker.blocks().count(), 1, "the handle");
        let pending = tracker.releasing(inside, EventFlags::NONE, origin);
        tracker.settle(pending, true, origin);
        assert_eq!(kinds(&mut tracker), [EventKind::ALIAS_END]);
        // Served by the call that created the handle: no alias, and the release is not one of unknown memory.
        let pending = tracker.releasing(inside, EventFlags::NONE, origin);
        tracker.settle(pending, true, origin);
        assert_eq!(kinds(&mut tracker), []);
        // The driver says that nothing is mapped there any more.
        let in_use = kinds(&mut tracker);
        assert_eq!((in_use, tracker.take_missed_releases()), (vec![], 0));
        tracker.missed_unmapping(inside.ptr, inside.ptr + 1000, origin);
        tracker.allocated(inside, block(1000, EventFlags::NONE), 0, origin);
        let expected = [EventKind::UNMAP, EventKind::ALLOC, EventKind::ALLOC];
        assert_eq!(kinds(&mut tracker), expected, "the block and its pages");
        assert_eq!(tracker.take_missed_releases(), 1);
        let pending = tracker.releasing(inside, EventFlags::NONE, origin);
        tracker.settle(pending, true, origin);
        // Behind the mapping.
        let outside = key(false, 9 * PAGE);
        tracker.allocated(outside, block(1000, EventFlags::NONE), 0, origin);
        assert_eq!(tracker.blocks().count(), 2);
    }
}
