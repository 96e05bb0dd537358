//! Operations on the state: memory that processes share, and memory that only other processes still
//! hold.

use crate::ffi::{Answer, CuError, require};
use crate::files;
use crate::host::{self, Access};
use crate::model::State;
use crate::model::context::Current;
use crate::model::kind::{Holding, Kind};
use crate::model::memory::{Allocation, Backing, Import};
use crate::model::sharing::*;
use gpumem_cuda_abi::{CuMemAllocFlags, CuMemAllocationProp, CuMemLocation, CuMemLocationType};
use std::os::fd::OwnedFd;

impl State {
    /// The properties of memory, for the name of its file.
    pub fn describe(&self, properties: &CuMemAllocationProp) -> Made {
        let location = properties.location;
        Made {
            kind: properties.kind,
            location: location.kind.0,
            id: self.shared_id(location),
            usage: properties.alloc_flags.usage,
        }
    }

    /// The id of a location, as other processes understand it.
    pub fn shared_id(&self, location: CuMemLocation) -> i64 {
        if location.kind == CuMemLocationType::DEVICE {
            let ordinal = usize::try_from(location.id).unwrap_or(0);
            i64::from(self.machine.visible.get(ordinal).copied().unwrap_or(0))
        } else {
            i64::from(location.id)
        }
    }

    /// Properties of memory that another process has described.
    ///
    /// # Errors
    /// `INVALID_DEVICE` if the device is not visible to this process.
    pub fn described(&self, made: Made) -> Answer<CuMemAllocationProp> {
        let kind = CuMemLocationType(made.location);
        let id = if kind == CuMemLocationType::DEVICE {
            let mut visible = self.machine.visible.iter();
            let ordinal = visible.position(|index| i64::from(*index) == made.id);
            ordinal.ok_or(CuError::INVALID_DEVICE)? as i32
        } else {
            made.id as i32
        };
        Ok(CuMemAllocationProp {
            kind: made.kind,
            requested_handle_types: FILE_DESCRIPTOR,
            location: CuMemLocation { kind, id },
            win32_handle_meta_data: std::ptr::null_mut(),
            alloc_flags: CuMemAllocFlags {
                compression_type: 0,
                gpu_direct_rdma_capable: 0,
                usage: made.usage,
                reserved: [0; 4],
            },
        })
    }

    /// Maps part of a file of another owner, at a new address, as an allocation that the books do
    /// not count.
    pub fn map_alias(
        &mut self,
        at: Current,
        file: i32,
        part: (u64, u64),
        from: Import,
    ) -> Answer<u64> {
        let (offset, bytes) = part;
        require(bytes > 0)?;
        let page = self.machine.page_bytes;
        let skipped = offset % page;
        let mapped = skipped.checked_add(bytes).ok_or(CuError::INVALID_VALUE)?;
        let start = host::map(mapped, page, Access::None).ok_or(CuError::MAP_FAILED)?;
        if !host::map_file_over(start, mapped, file, offset - skipped) {
            host::unmap(start, mapped);
            return Err(CuError::MAP_FAILED);
        }
        host::protect(start, mapped, Access::ReadWrite);
        let (kind, context) = match from {
            Import::Pool => (Kind::Async, 0),
            Import::Array => (Kind::Array, at.context),
            Import::Ipc | Import::External => (Kind::Device, at.context),
        };
        let base = start + skipped;
        self.memory.insert(Allocation {
            base,
            bytes,
            kind,
            context,
            device: at.device,
            flags: 0,
            id: 0,
            backing: Backing::Imported {
                start,
                mapped,
                from,
            },
            access: Access::ReadWrite,
        });
        Ok(base)
    }

    /// Frees physical memory of the card, or, while another process holds its file, keeps it until
    /// then.
    pub fn give_when_unheld(&mut self, device: usize, bytes: u64, file: Option<OwnedFd>) {
        match file {
            Some(file) if bytes > 0 && files::is_held_elsewhere(&file) => {
                self.books
                    .device_mut(device)
                    .holds(Holding::Lingering, bytes);
                self.lingering.push(Lingering {
                    file,
                    device,
                    bytes,
                });
            }
            _ => self.books.device_mut(device).give_physical(bytes),
        }
    }

    /// Frees memory that other processes have released since the last call.
    pub fn settle_lingering(&mut self) {
        let books = &mut self.books;
        self.lingering.retain(|one| {
            let held = files::is_held_elsewhere(&one.file);
            if !held {
                books
                    .device_mut(one.device)
                    .give_held(Holding::Lingering, one.bytes);
            }
            held
        });
    }
}
