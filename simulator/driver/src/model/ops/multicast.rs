//! Operations on the state: multicast objects.

use crate::ffi::{Answer, CuError, require};
use crate::files;
use crate::host::Access;
use crate::model::State;
use crate::model::kind::Kind;
use crate::model::memory::Backing;
use crate::model::multicast::*;
use crate::model::sharing::{Label, check_handle_types};
use crate::model::vmm::GRANULARITY;
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::Ordering;

impl State {
    /// Whether the devices support multicast: from compute capability 9.0 on.
    pub fn check_multicast(&self) -> Answer {
        let first = self.machine.visible_device(0);
        match first.is_some_and(|device| device.compute_capability >= (9, 0)) {
            true => Ok(()),
            false => Err(CuError::NOT_SUPPORTED),
        }
    }

    /// `cuMulticastCreate`.
    pub fn create_multicast(&mut self, properties: Properties) -> Answer<u64> {
        self.check_multicast()?;
        let Properties {
            devices,
            bytes,
            handle_types,
            flags,
        } = properties;
        let bytes = bytes as u64;
        require(flags == 0 && (1..=64).contains(&devices))?;
        require(bytes > 0 && bytes.is_multiple_of(GRANULARITY))?;
        check_handle_types(u32::try_from(handle_types).map_err(|_| CuError::INVALID_VALUE)?)?;
        let name = Label::Multicast.to_name();
        let file = files::memory_file(&name, PAGE).ok_or(CuError::OUT_OF_MEMORY)?;
        let page = Page::map(file.as_raw_fd()).ok_or(CuError::OUT_OF_MEMORY)?;
        page.team().bytes.store(bytes, Ordering::Relaxed);
        page.team().wanted.store(devices, Ordering::Release);
        self.keep_multicast(file, page, handle_types != 0)
    }

    pub(crate) fn keep_multicast(
        &mut self,
        file: OwnedFd,
        page: Page,
        shared: bool,
    ) -> Answer<u64> {
        let identity = files::identity(file.as_raw_fd()).ok_or(CuError::INVALID_VALUE)?;
        let bytes = page.team().bytes.load(Ordering::Relaxed);
        let handle = self.multicasts.insert(Multicast {
            file,
            number: identity.number,
            page: Arc::new(page),
            shared,
            bindings: Vec::new(),
            bytes,
            references: 1,
            mappings: 0,
        });
        Ok(handle as u64)
    }

    pub(crate) fn import_multicast(&mut self, file: i32, number: (u64, u64)) -> Answer<u64> {
        let same =
            |(handle, object): (usize, &Multicast)| (object.number == number).then_some(handle);
        let known = self.multicasts.iter().find_map(same);
        if let Some(object) = known.and_then(|handle| self.multicasts.get_mut(handle)) {
            object.references += 1;
            return Ok(known.unwrap_or(0) as u64);
        }
        let file = files::duplicate(file).ok_or(CuError::INVALID_VALUE)?;
        let page = Page::map(file.as_raw_fd()).ok_or(CuError::OUT_OF_MEMORY)?;
        self.keep_multicast(file, page, true)
    }

    /// `cuMemExportToShareableHandle` of an object; `None` if the handle is not one.
    pub fn export_multicast(&self, handle: u64) -> Option<Answer<OwnedFd>> {
        let object = self.multicasts.get(handle as usize)?;
        if !object.shared {
            return Some(Err(CuError::INVALID_VALUE));
        }
        let file = files::hand_out(object.file.as_raw_fd());
        Some(file.ok_or(CuError::OUT_OF_MEMORY))
    }

    /// An object's page, to wait on without the lock; `None` if the handle is not one.
    pub fn team_of(&self, handle: u64) -> Option<Arc<Page>> {
        let object = self.multicasts.get(handle as usize)?;
        Some(Arc::clone(&object.page))
    }

    /// `cuMulticastAddDevice`.
    pub fn add_to_multicast(&mut self, handle: u64, device: usize) -> Answer {
        let page = self.team_of(handle).ok_or(CuError::INVALID_VALUE)?;
        page.join(self.index_of(device)?)
    }

    /// `cuMulticastBindMem` and `cuMulticastBindAddr`, when the team is complete. `device` is the
    /// caller's parameter, which must be the memory's device.
    pub fn bind_multicast(
        &mut self,
        handle: u64,
        device: Option<usize>,
        offset: u64,
        source: Source,
        bytes: u64,
    ) -> Answer {
        let whole = |n: u64| n.is_multiple_of(GRANULARITY);
        require(bytes > 0 && whole(bytes) && whole(offset))?;
        let (owner, held, shareable) = self.source_of(source, bytes)?;
        require(device.is_none_or(|device| device == owner))?;
        let index = self.index_of(owner)?;
        let object = self.multicasts.get_mut(handle as usize);
        let object = object.ok_or(CuError::INVALID_VALUE)?;
        let end = offset.checked_add(bytes).ok_or(CuError::INVALID_VALUE)?;
        require(end <= object.bytes && (shareable || !object.shared))?;
        if !object.page.has(index) {
            return Err(CuError::INVALID_DEVICE);
        }
        let overlaps = |other: &Binding| {
            other.device == owner && other.offset < end && offset < other.offset + other.bytes
        };
        require(!object.bindings.iter().any(overlaps))?;
        object.bindings.push(Binding {
            device: owner,
            offset,
            bytes,
            handle: held,
        });
        if let Some(held) = held {
            self.hold_physical(held);
        }
        Ok(())
    }

    /// `cuMulticastUnbind`: offset and size must be those of the binding.
    pub fn unbind_multicast(
        &mut self,
        handle: u64,
        device: usize,
        offset: u64,
        bytes: u64,
    ) -> Answer {
        let object = self.multicasts.get_mut(handle as usize);
        let object = object.ok_or(CuError::INVALID_VALUE)?;
        let same = |one: &Binding| (one.device, one.offset, one.bytes) == (device, offset, bytes);
        let found = object.bindings.iter().position(same);
        let gone = object.bindings.remove(found.ok_or(CuError::INVALID_VALUE)?);
        if let Some(held) = gone.handle {
            self.unhold_physical(held);
        }
        Ok(())
    }

    pub(crate) fn release_multicast(&mut self, handle: u64) -> Answer {
        let object = self.multicasts.get_mut(handle as usize);
        let object = object.filter(|object| object.references > 0);
        object.ok_or(CuError::INVALID_VALUE)?.references -= 1;
        self.bury_multicast(handle);
        Ok(())
    }

    pub(crate) fn bury_multicast(&mut self, handle: u64) {
        let unused = |object: &Multicast| object.references == 0 && object.mappings == 0;
        if !self.multicasts.get(handle as usize).is_some_and(unused) {
            return;
        }
        let gone = self.multicasts.remove(handle as usize);
        for binding in gone.map(|gone| gone.bindings).unwrap_or_default() {
            if let Some(held) = binding.handle {
                self.unhold_physical(held);
            }
        }
    }

    /// A device's last context has ended: all its memory is unbound.
    pub(crate) fn unbind_all_on(&mut self, device: usize) {
        let mut held = Vec::new();
        for (_, object) in self.multicasts.iter_mut() {
            object.bindings.retain(|binding| {
                let stays = binding.device != device;
                if !stays {
                    held.extend(binding.handle);
                }
                stays
            });
        }
        for handle in held {
            self.unhold_physical(handle);
        }
    }

    /// The memory's device, the handle that the binding holds, and whether it can be shared.
    pub(crate) fn source_of(
        &self,
        source: Source,
        bytes: u64,
    ) -> Answer<(usize, Option<u64>, bool)> {
        let (handle, offset) = match source {
            Source::Handle(handle, offset) => (handle, offset),
            Source::Address(address) => {
                require(address.is_multiple_of(GRANULARITY))?;
                require(self.memory.covers(address, bytes, Access::None))?;
                let found = self.memory.holding(address);
                let found = found.ok_or(CuError::INVALID_VALUE)?;
                match found.backing {
                    Backing::Pool { pool } => {
                        let shareable = self.pools.is_shareable(pool);
                        return Ok((found.device, None, shareable));
                    }
                    Backing::Mapping => {}
                    _ => return Err(CuError::INVALID_VALUE),
                }
                let offset = self.offset_in_handle(address);
                let offset = offset.ok_or(CuError::INVALID_VALUE)?;
                (self.vmm.mapped_at(address)?, offset)
            }
        };
        require(offset.is_multiple_of(GRANULARITY))?;
        let physical = self.vmm.peek(handle)?;
        let end = offset.checked_add(bytes);
        require(physical.kind == Kind::Vmm && end.is_some_and(|end| end <= physical.bytes))?;
        let shareable = physical.properties.requested_handle_types != 0;
        Ok((physical.device, Some(handle), shareable))
    }

    pub(crate) fn index_of(&self, device: usize) -> Answer<u32> {
        let index = self.machine.visible.get(device).copied();
        index.ok_or(CuError::INVALID_DEVICE)
    }
}
