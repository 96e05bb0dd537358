//! Operations on the state: memory shared between processes (`cuIpc*MemHandle`).

use crate::ffi::{Answer, CuError, require};
use crate::files;
use crate::host::{self, Access};
use crate::model::State;
use crate::model::context::Current;
use crate::model::ipc::*;
use crate::model::kind::Kind;
use crate::model::memory::{Backing, Import};
use std::os::fd::{AsRawFd, OwnedFd};

impl State {
    /// `cuIpcGetMemHandle`.
    pub fn share(&mut self, pointer: u64) -> Answer<Ticket> {
        let found = self.memory.holding(pointer);
        let found = *found.ok_or(CuError::INVALID_VALUE)?;
        require(found.kind == Kind::Device)?;
        let page = self.machine.page_bytes;
        let (start, length) = match found.backing {
            Backing::Pages { mapped, .. } => (found.base, mapped),
            Backing::Small => (found.base / page * page, page),
            _ => return Err(CuError::INVALID_VALUE),
        };
        if !self.ipc.shared.contains_key(&start) {
            self.move_to_file(start, length)?;
        }
        let shared = self.ipc.shared.get(&start);
        let shared = shared.ok_or(CuError::INVALID_VALUE)?;
        let (file, serial) = (shared.file.as_raw_fd(), shared.serial);
        let device = self.machine.visible.get(found.device).copied();
        Ok(Ticket {
            pid: u64::from(std::process::id()),
            id: found.id,
            bytes: found.bytes,
            file: file as u64,
            serial,
            offset: found.base - start,
            device: u64::from(device.unwrap_or(0)),
        })
    }

    /// `cuIpcOpenMemHandle`. Opened again, it returns the same address, which must be closed as
    /// often.
    ///
    /// # Errors
    /// `INVALID_CONTEXT` for a handle of this process, as in NVIDIA's driver; `INVALID_VALUE` if
    /// the memory has been freed.
    pub fn open_shared(&mut self, at: Current, ticket: Ticket) -> Answer<u64> {
        if ticket.pid == u64::from(std::process::id()) {
            return Err(CuError::INVALID_CONTEXT);
        }
        let key = (ticket.pid, ticket.id);
        if let Some((base, count)) = self.ipc.opened.get_mut(&key) {
            *count += 1;
            return Ok(*base);
        }
        let path = files::path_in(ticket.pid, ticket.file);
        let file = files::open(&path).ok_or(CuError::INVALID_VALUE)?;
        // The owner may have reused the descriptor number for another file.
        let name = files::name(file.as_raw_fd());
        require(name.is_some_and(|name| name == file_name(ticket.serial)))?;
        let part = (ticket.offset, ticket.bytes);
        let base = self.map_alias(at, file.as_raw_fd(), part, Import::Ipc)?;
        self.ipc.opened.insert(key, (base, 1));
        Ok(base)
    }

    /// `cuIpcCloseMemHandle`.
    pub fn close_shared(&mut self, base: u64) -> Answer {
        let mut opened = self.ipc.opened.iter_mut();
        let found = opened.find(|(_, (address, _))| *address == base);
        let (key, (_, count)) = found.ok_or(CuError::INVALID_VALUE)?;
        *count -= 1;
        if *count > 0 {
            return Ok(());
        }
        let key = *key;
        self.ipc.opened.remove(&key);
        let imported = self
            .memory
            .at(base)
            .is_some_and(|a| matches!(a.backing, Backing::Imported { .. }));
        require(imported)?;
        self.free_allocation(base);
        Ok(())
    }

    /// The memory at `start` is being freed, with its file, if it has one.
    pub(crate) fn forget_shared(&mut self, start: u64) -> Option<OwnedFd> {
        self.ipc.shared.remove(&start).map(|shared| shared.file)
    }

    /// The memory that was opened at `base` is being unmapped, for all opens.
    pub(crate) fn forget_opened(&mut self, base: u64) {
        self.ipc.opened.retain(|_, (address, _)| *address != base);
    }

    pub(crate) fn move_to_file(&mut self, start: u64, length: u64) -> Answer {
        self.ipc.serials += 1;
        let serial = self.ipc.serials;
        let file = files::memory_file(&file_name(serial), length);
        let file = file.ok_or(CuError::OUT_OF_MEMORY)?;
        if !host::copy_to_file(file.as_raw_fd(), start, length)
            || !host::map_file_over(start, length, file.as_raw_fd(), 0)
        {
            return Err(CuError::OUT_OF_MEMORY);
        }
        host::protect(start, length, Access::ReadWrite);
        self.ipc.shared.insert(start, Shared { file, serial });
        Ok(())
    }
}
