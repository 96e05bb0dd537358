//! Blocks: what programs asked the driver for, and what the card gave for each.

use gpumem_capture::{DeviceOrdinal, Event, EventFlags, EventKind, Level, Seq};

use crate::state::block::{Block, Key};
use crate::state::origin::Origin;
use crate::state::pages;
use crate::state::pending::{Pending, Then, Undo};
use crate::tracker::Tracker;

/// How the card stands behind a block.
enum Behind {
    /// Pages that other blocks may share.
    Pages,
    /// As many bytes of its own.
    Own(u64),
    /// Something that is counted by itself, or not known.
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
    /// A block that a call has returned; `caller` is the return address of the call. If another one was live there, its
    /// release went unseen.
    pub fn allocated(&mut self, key: Key, block: Block, caller: u64, origin: Origin) {
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

    /// A release that is about to be tried; `extra` flags qualify it. What to pass to [`Tracker::settle`] when the call
    /// has returned.
    pub fn releasing(&mut self, key: Key, extra: EventFlags, origin: Origin) -> Pending {
        let mut pending = Pending::default();
        if !self.release(key, extra, origin, &mut pending) {
            let alias = key.level == Level::DRIVER && !key.is_handle;
            if !alias || !self.close_alias(key.ptr, origin, &mut pending) {
                // Recorded once the call has succeeded: a program may well try to release what is no allocation.
                pending.then = Some(Then::UnknownFree { key, flags: extra });
            }
        }
        pending
    }

    /// Takes a block out and records it. Whether there is one.
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

    /// A release was recorded and the call failed.
    pub(crate) fn cancel(&mut self, key: Key, block: Block, free: Seq, origin: Origin) {
        self.blocks.insert(key, block);
        self.push(Event {
            aux: free.0,
            ..block.event(EventKind::CANCEL, key, origin)
        });
        self.card(EventKind::ALLOC, key, &block, origin);
    }

    /// A pointer that was no live block is released.
    pub(crate) fn unknown_free(&mut self, key: Key, flags: EventFlags, origin: Origin) {
        self.push(Event {
            ptr: key.ptr,
            device: DeviceOrdinal::NONE,
            flags: flags.with(EventFlags::UNKNOWN_POINTER),
            ..origin.event(EventKind::FREE, key.level)
        });
    }

    /// The most that managed memory can take of a device.
    pub fn managed(&self, device: DeviceOrdinal) -> u64 {
        if self.blocks.managed == 0 {
            return 0;
        }
        let here = |block: &&Block| block.device == device && block.is_managed();
        let all = self.blocks.all.values().filter(here);
        all.map(|block| pages::whole(block.bytes)).sum()
    }

    /// All live blocks, in no order that would mean anything.
    pub fn blocks(&self) -> impl Iterator<Item = (&Key, &Block)> {
        self.blocks.all.iter()
    }

    /// What the card gives (ALLOC) or takes back (FREE) for a block: after the block's own event.
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
