//! Physical handles and what is mapped or bound to them. A handle is live for as long as it has references or mappings.

use gpumem_capture::{DeviceOrdinal, Event, EventFlags, EventKind, Level};

use crate::state::alias::Alias;
use crate::state::block::{Block, Key};
use crate::state::handle::{Binding, Handle, Mapping};
use crate::state::origin::Origin;
use crate::state::pending::{Pending, Undo};
use crate::tracker::Tracker;

impl Tracker {
    /// Records new physical memory, with its block. As [`Tracker::allocated`].
    pub fn handle_made(&mut self, key: Key, block: Block, caller: u64, origin: Origin) {
        let handle = Handle::new(key.level, block.device, false);
        self.handles.insert(key.ptr, handle);
        self.allocated(key, block, caller, origin);
    }

    /// Records a handle on memory that is counted elsewhere: of another process or API, or a multicast object. The
    /// driver may return a handle that this process already has; it then has one more reference.
    pub fn handle_opened(&mut self, handle: u64, alias: Alias, caller: u64, origin: Origin) {
        if self.retained(handle) {
            return;
        }
        let opened = Handle::new(Level::DRIVER, alias.device, true);
        self.handles.insert(handle, opened);
        self.push(Event {
            aux: caller,
            ..alias.event(EventKind::ALIAS, handle, origin)
        });
    }

    /// Adds a reference. Returns whether the handle is known.
    pub fn retained(&mut self, handle: u64) -> bool {
        let known = self.handles.get_mut(&handle);
        known.map(|handle| handle.references += 1).is_some()
    }

    /// Removes a reference; the last one ends the handle.
    pub fn handle_releasing(&mut self, handle: u64, origin: Origin) -> Option<Pending> {
        self.handles.get(&handle)?;
        let mut pending = Pending::default();
        self.drop_one(
            handle,
            |handle| &mut handle.references,
            origin,
            &mut pending,
        );
        Some(pending)
    }

    /// Records that a handle was mapped to an address.
    pub fn mapped(&mut self, at: u64, bytes: u64, handle: u64, origin: Origin) {
        let device = self.count_mapping(handle);
        let mapping = Mapping { bytes, handle };
        self.mappings.insert(at, mapping);
        self.push(mapping.event(EventKind::MAP, at, device, origin));
    }

    /// Records that the mappings between two addresses are about to end.
    pub fn unmapping(&mut self, from: u64, to: u64, origin: Origin) -> Pending {
        let mut pending = Pending::default();
        let ending: Vec<_> = self
            .mappings
            .range(from..to)
            .map(|(at, mapping)| (*at, *mapping))
            .collect();
        for (at, mapping) in ending {
            self.mappings.remove(&at);
            let device = self
                .handle_device(mapping.handle)
                .unwrap_or(DeviceOrdinal::NONE);
            self.push(mapping.event(EventKind::UNMAP, at, device, origin));
            pending.push(Undo::Mapping { at, mapping });
            self.drop_one(
                mapping.handle,
                |handle| &mut handle.mappings,
                origin,
                &mut pending,
            );
        }
        pending
    }

    /// Ends the mappings of a range that the driver has given to something else: their own end was missed.
    pub fn missed_unmapping(&mut self, from: u64, to: u64, origin: Origin) {
        let before = self.mappings.range(..=from).next_back();
        let first = before.filter(|(at, mapping)| from - **at < mapping.bytes);
        let from = first.map_or(from, |(at, _)| *at);
        let pending = self.unmapping(from, to, origin.without_stacks());
        self.missed_releases += 1;
        self.settle(pending, true, origin);
    }

    pub(crate) fn restore_mapping(&mut self, at: u64, mapping: Mapping, origin: Origin) {
        let device = self
            .handle_device(mapping.handle)
            .unwrap_or(DeviceOrdinal::NONE);
        self.mappings.insert(at, mapping);
        self.push(mapping.event(EventKind::MAP, at, device, origin));
    }

    pub(crate) fn restore_handle(&mut self, handle: u64, before: Handle, origin: Origin) {
        let has_ended = self.handles.insert(handle, before).is_none();
        if has_ended && before.is_alias {
            self.push(before.event(EventKind::ALIAS, handle, origin));
        }
    }

    /// The device of a handle, if it is known.
    pub fn handle_device(&self, handle: u64) -> Option<DeviceOrdinal> {
        self.handles.get(&handle).map(|handle| handle.device)
    }

    /// The handle behind a mapped address.
    pub fn handle_at(&self, address: u64) -> Option<u64> {
        let (at, mapping) = self.mappings.range(..=address).next_back()?;
        (address - at < mapping.bytes).then_some(mapping.handle)
    }

    /// Records memory that was bound to a multicast object, for a device, at an offset: a handle, if it is known.
    pub fn bound(
        &mut self,
        (object, device, offset): (u64, DeviceOrdinal, u64),
        alias: Alias,
        handle: Option<u64>,
        caller: u64,
        origin: Origin,
    ) {
        if let Some(handle) = handle {
            self.count_mapping(handle);
            self.bindings.insert((object, device.0, offset), handle);
        }
        self.push(Event {
            aux: caller,
            ..alias.event(EventKind::ALIAS, object, origin)
        });
    }

    /// Ends a binding, and everything that only it held.
    pub fn unbound(
        &mut self,
        (object, device, offset): (u64, DeviceOrdinal, u64),
        alias: Alias,
        origin: Origin,
    ) {
        self.push(alias.event(EventKind::ALIAS_END, object, origin));
        if let Some(handle) = self.bindings.remove(&(object, device.0, offset)) {
            self.end_mapping(handle, origin);
        }
    }

    /// Ends the handles of a device whose last context has ended. The end of aliases is recorded here; the frees of
    /// counted memory are recorded elsewhere.
    pub(crate) fn forget_handles(&mut self, device: DeviceOrdinal, origin: Origin) {
        let here = self
            .handles
            .iter()
            .filter(|(_, handle)| handle.device == device);
        let gone: Vec<_> = here.map(|(handle, known)| (*handle, *known)).collect();
        for (handle, known) in gone {
            self.handles.remove(&handle);
            if known.is_alias {
                self.push(known.event(EventKind::ALIAS_END, handle, origin));
            }
        }
        let handles = &self.handles;
        self.mappings
            .retain(|_, mapping| handles.contains_key(&mapping.handle));
    }

    /// Adds a mapping; returns the device of the handle.
    fn count_mapping(&mut self, handle: u64) -> DeviceOrdinal {
        let known = self.handles.get_mut(&handle);
        known.map_or(DeviceOrdinal::NONE, |handle| {
            handle.mappings += 1;
            handle.device
        })
    }

    /// Removes a mapping permanently.
    fn end_mapping(&mut self, handle: u64, origin: Origin) {
        let mut pending = Pending::default();
        self.drop_one(handle, |handle| &mut handle.mappings, origin, &mut pending);
    }

    /// Removes a reference or mapping; the last one ends the handle.
    fn drop_one(
        &mut self,
        handle: u64,
        count: impl FnOnce(&mut Handle) -> &mut u32,
        origin: Origin,
        pending: &mut Pending,
    ) {
        let Some(known) = self.handles.get_mut(&handle) else {
            return;
        };
        let before = *known;
        let count = count(known);
        *count = count.saturating_sub(1);
        let after = *known;
        pending.push(Undo::Handle { handle, before });
        if after.references != 0 || after.mappings != 0 {
            return;
        }
        self.handles.remove(&handle);
        if after.is_alias {
            self.push(after.event(EventKind::ALIAS_END, handle, origin));
            self.unbind_all(handle, origin);
        } else {
            let (level, is_handle, ptr) = (after.level, true, handle);
            let key = Key {
                level,
                is_handle,
                ptr,
            };
            self.release(key, EventFlags::VMM_HANDLE, origin, pending);
        }
    }

    /// Ends all bindings to an object that has ended, and everything that only they held.
    fn unbind_all(&mut self, object: u64, origin: Origin) {
        let of_object = (object, 0, 0)..=(object, u8::MAX, u64::MAX);
        let places: Vec<Binding> = self
            .bindings
            .range(of_object)
            .map(|(place, _)| *place)
            .collect();
        for place in places {
            if let Some(handle) = self.bindings.remove(&place) {
                self.end_mapping(handle, origin);
            }
        }
    }
}
