//! Operations on the state: virtual memory management.

use crate::ffi::{Answer, CuError, require};
use crate::files;
use crate::host::{self, Access};
use crate::model::State;
use crate::model::kind::Kind;
use crate::model::memory::{Allocation, Backing};
use crate::model::sharing::{Label, check_handle_types};
use crate::model::vmm::*;
use gpumem_cuda_abi::{
    ALLOCATION_MANAGED, ALLOCATION_PINNED, CuMemAllocationProp, CuMemLocationType,
};
use std::collections::BTreeSet;
use std::os::fd::{AsRawFd, OwnedFd};

impl State {
    /// `cuMemCreate`.
    pub fn create_physical(&mut self, bytes: u64, properties: CuMemAllocationProp) -> Answer<u64> {
        require(bytes > 0 && bytes.is_multiple_of(GRANULARITY))?;
        let (device, kind) = self.place(&properties)?;
        check_handle_types(properties.requested_handle_types)?;
        let physical = if kind == Kind::Vmm { bytes } else { 0 };
        self.take_pages(device, physical)?;
        let name = Label::Physical(self.describe(&properties)).to_name();
        let Some(file) = files::memory_file(&name, bytes) else {
            self.books.device_mut(device).give_physical(physical);
            return Err(CuError::OUT_OF_MEMORY);
        };
        self.books.device_mut(device).allocated(kind, bytes);
        Ok(self.keep_physical(file, bytes, properties, device, kind, false))
    }

    /// `cuMemExportToShareableHandle`: opens the file again.
    pub fn export_physical(&self, handle: u64) -> Answer<OwnedFd> {
        let physical = self.vmm.get(handle)?;
        require(physical.properties.requested_handle_types != 0)?;
        files::hand_out(physical.file.as_raw_fd()).ok_or(CuError::OUT_OF_MEMORY)
    }

    /// `cuMemImportFromShareableHandle`: memory of this process returns its own handle, with one
    /// more reference; memory of another process becomes an alias, which is not counted here.
    pub fn import_physical(&mut self, file: i32) -> Answer<u64> {
        let identity = files::identity(file).ok_or(CuError::INVALID_VALUE)?;
        let made = match Label::of_file(file)? {
            Label::Physical(made) => made,
            Label::Multicast => return self.import_multicast(file, identity.number),
            Label::Pool(_) => return Err(CuError::INVALID_VALUE),
        };
        let mut held = self.vmm.handles.iter_mut();
        let known = held.find(|(_, physical)| {
            let known = files::identity(physical.file.as_raw_fd());
            known.is_some_and(|known| known.number == identity.number)
        });
        if let Some((handle, physical)) = known {
            physical.references += 1;
            return Ok(*handle);
        }
        let properties = self.described(made)?;
        let (device, kind) = self.place(&properties)?;
        let copy = files::duplicate(file).ok_or(CuError::INVALID_VALUE)?;
        Ok(self.keep_physical(copy, identity.bytes, properties, device, kind, true))
    }

    /// `cuMemRelease`.
    pub fn release_physical(&mut self, handle: u64) -> Answer {
        if self.multicasts.get(handle as usize).is_some() {
            return self.release_multicast(handle);
        }
        self.vmm.get(handle)?;
        if let Some(physical) = self.vmm.handles.get_mut(&handle) {
            physical.references -= 1;
        }
        self.bury_physical(handle);
        Ok(())
    }

    /// `cuMemRetainAllocationHandle`: adds a reference to the handle that is mapped at an address.
    pub fn retain_physical(&mut self, address: u64) -> Answer<u64> {
        let handle = self.vmm.mapped_at(address)?;
        if let Some(object) = self.multicasts.get_mut(handle as usize) {
            object.references += 1;
        } else if let Some(physical) = self.vmm.handles.get_mut(&handle) {
            physical.references += 1;
        }
        Ok(handle)
    }

    /// Adds a mapping of a handle.
    pub(crate) fn hold_physical(&mut self, handle: u64) {
        if let Some(physical) = self.vmm.handles.get_mut(&handle) {
            physical.mappings += 1;
        }
    }

    /// Removes a mapping of a handle.
    pub(crate) fn unhold_physical(&mut self, handle: u64) {
        if let Some(physical) = self.vmm.handles.get_mut(&handle) {
            physical.mappings -= 1;
        }
        self.bury_physical(handle);
    }

    /// `cuMemAddressReserve`: addresses only, no memory. At `hint`, if it is a multiple of the
    /// alignment and the addresses are free; else elsewhere.
    pub fn reserve_addresses(&mut self, bytes: u64, align: u64, hint: u64) -> Answer<u64> {
        require(bytes > 0 && bytes.is_multiple_of(GRANULARITY))?;
        require(align == 0 || align.is_power_of_two())?;
        let align = align.max(GRANULARITY);
        let there = if hint != 0 && hint.is_multiple_of(align) {
            host::map_at(hint, bytes, Access::None)
        } else {
            None
        };
        let base = there.or_else(|| host::map(bytes, align, Access::None));
        let base = base.ok_or(CuError::OUT_OF_MEMORY)?;
        self.vmm.reservations.insert(base, bytes);
        Ok(base)
    }

    /// `cuMemAddressFree`: a whole reservation without mappings.
    pub fn free_addresses(&mut self, base: u64, bytes: u64) -> Answer {
        require(self.vmm.reservations.get(&base) == Some(&bytes))?;
        require(!self.vmm.mapped_within(base, base + bytes))?;
        self.vmm.reservations.remove(&base);
        host::unmap(base, bytes);
        Ok(())
    }

    /// `cuMemMap`: maps part of a handle to an unmapped part of one reservation. No access until
    /// `cuMemSetAccess`.
    pub fn map_physical(&mut self, base: u64, bytes: u64, offset: u64, handle: u64) -> Answer {
        let whole = |n: u64| n.is_multiple_of(GRANULARITY);
        require(bytes > 0 && whole(bytes) && whole(base) && whole(offset))?;
        let end = offset.checked_add(bytes).ok_or(CuError::INVALID_VALUE)?;
        require(self.vmm.reserved(base, bytes))?;
        require(!self.vmm.mapped_within(base, base + bytes))?;
        let (device, kind, backing) = if let Some(object) = self.multicasts.get_mut(handle as usize)
        {
            require(end <= object.bytes)?;
            object.mappings += 1;
            (0, Kind::Vmm, Backing::Multicast)
        } else {
            let physical = self.vmm.get(handle)?;
            require(end <= physical.bytes)?;
            if !host::map_file_over(base, bytes, physical.file.as_raw_fd(), offset) {
                return Err(CuError::OUT_OF_MEMORY);
            }
            let (device, kind) = (physical.device, physical.kind);
            self.hold_physical(handle);
            (device, kind, Backing::Mapping)
        };
        self.vmm.mappings.insert(
            base,
            Mapping {
                bytes,
                handle,
                offset,
            },
        );
        self.memory.insert(Allocation {
            base,
            bytes,
            kind,
            context: 0,
            device,
            flags: 0,
            id: 0,
            backing,
            access: Access::None,
        });
        Ok(())
    }

    /// `cuMemUnmap`: the mappings in a reserved range, which must be complete. The range may have
    /// no mappings.
    pub fn unmap_physical(&mut self, base: u64, bytes: u64) -> Answer {
        for at in self.vmm.within(base, bytes)? {
            self.drop_mapping(at);
        }
        Ok(())
    }

    /// `cuMemSetAccess`: for one or several complete mappings.
    pub fn set_access(&mut self, base: u64, bytes: u64, access: Access) -> Answer {
        for at in self.vmm.exactly(base, bytes)? {
            if let Some(allocation) = self.memory.at_mut(at) {
                allocation.access = access;
                if allocation.backing == Backing::Mapping {
                    host::protect(at, allocation.bytes, access);
                }
            }
        }
        Ok(())
    }

    /// The offset of the byte at `address` in its handle.
    pub fn offset_in_handle(&self, address: u64) -> Option<u64> {
        let (base, mapping) = self.vmm.mappings.range(..=address).next_back()?;
        (address - base < mapping.bytes).then(|| mapping.offset + (address - base))
    }

    /// The device's last context has ended: its mappings and handles are freed. Reserved addresses
    /// stay.
    pub(crate) fn drop_handles_of(&mut self, device: usize) {
        let of_device = |handle: &u64, vmm: &Vmm| {
            let physical = vmm.handles.get(handle);
            // Host memory is in the first device's books, but not on the device.
            physical.is_some_and(|p| p.device == device && p.kind == Kind::Vmm)
        };
        let mapped: Vec<u64> = self
            .vmm
            .mappings
            .iter()
            .filter(|(_, mapping)| of_device(&mapping.handle, &self.vmm))
            .map(|(base, _)| *base)
            .collect();
        for base in mapped {
            self.drop_mapping(base);
        }
        self.unbind_all_on(device);
        let handles = self.vmm.handles.keys().copied();
        let held: BTreeSet<u64> = handles.filter(|h| of_device(h, &self.vmm)).collect();
        for handle in held {
            if let Some(physical) = self.vmm.handles.get_mut(&handle) {
                physical.references = 0;
            }
            self.bury_physical(handle);
        }
    }

    pub(crate) fn place(&self, properties: &CuMemAllocationProp) -> Answer<(usize, Kind)> {
        match properties.kind {
            ALLOCATION_PINNED => {}
            ALLOCATION_MANAGED => return Err(CuError::NOT_SUPPORTED),
            _ => return Err(CuError::INVALID_VALUE),
        }
        let location = properties.location;
        match location.kind {
            CuMemLocationType::DEVICE => Ok((self.device(location.id)?, Kind::Vmm)),
            // It cannot be shared with other processes.
            CuMemLocationType::HOST if properties.requested_handle_types == 0 => {
                Ok((0, Kind::Host))
            }
            CuMemLocationType::HOST_NUMA if is_numa_node(location.id) => Ok((0, Kind::Host)),
            CuMemLocationType::HOST_NUMA_CURRENT => Ok((0, Kind::Host)),
            _ => Err(CuError::INVALID_VALUE),
        }
    }

    pub(crate) fn keep_physical(
        &mut self,
        file: OwnedFd,
        bytes: u64,
        properties: CuMemAllocationProp,
        device: usize,
        kind: Kind,
        imported: bool,
    ) -> u64 {
        self.vmm.next_handle += 1;
        let handle = 0x5c_0010_0000_0000 + self.vmm.next_handle * 0x10;
        self.vmm.handles.insert(
            handle,
            Physical {
                file,
                bytes,
                properties,
                device,
                kind,
                imported,
                references: 1,
                mappings: 0,
            },
        );
        handle
    }

    pub(crate) fn drop_mapping(&mut self, base: u64) {
        let Some(mapping) = self.vmm.mappings.remove(&base) else {
            return;
        };
        host::map_nothing_over(base, mapping.bytes);
        self.memory.remove(base);
        if let Some(object) = self.multicasts.get_mut(mapping.handle as usize) {
            object.mappings -= 1;
            self.bury_multicast(mapping.handle);
        } else {
            self.unhold_physical(mapping.handle);
        }
    }

    pub(crate) fn bury_physical(&mut self, handle: u64) {
        let unused = |physical: &Physical| physical.references == 0 && physical.mappings == 0;
        if !self.vmm.handles.get(&handle).is_some_and(unused) {
            return;
        }
        let Some(gone) = self.vmm.handles.remove(&handle) else {
            return;
        };
        if gone.imported {
            return;
        }
        let books = self.books.device_mut(gone.device);
        books.freed(gone.kind, gone.bytes);
        if gone.kind == Kind::Vmm {
            self.give_when_unheld(gone.device, gone.bytes, Some(gone.file));
        }
    }
}
