//! Memory shared between processes (`cuIpc*MemHandle`).
//!
//! An allocation becomes a file in memory when its handle is first asked for: the contents are
//! copied there and the file is mapped in the allocation's place, at the same address. Another
//! process of the same user opens the file through `/proc` and maps it too. It is an alias: the
//! books of the process that opens it do not count it.

use super::State;
use super::books::Kind;
use super::context::Current;
use super::memory::{Allocation, Backing};
use crate::ffi::{Answer, require};
use crate::host::{self, Access};
use gpumem_cuda_abi::{CuIpcMemHandle, CuResult};
use std::collections::BTreeMap;
use std::fs::File;
use std::os::fd::{AsRawFd, OwnedFd};

const MAGIC: u64 = u64::from_ne_bytes(*b"gpumem\x01i");

/// What the 64 opaque bytes hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ticket {
    pid: u64,
    /// The exporter's allocation: its number and address, for telling it from others.
    id: u64,
    base: u64,
    bytes: u64,
    /// The exporter's file, and where in it the allocation starts.
    file: u64,
    offset: u64,
    /// Index of the device on the machine.
    device: u64,
}

impl Ticket {
    /// As the caller's opaque bytes.
    pub fn to_handle(self) -> CuIpcMemHandle {
        let words = [
            MAGIC,
            self.pid,
            self.id,
            self.base,
            self.bytes,
            self.file,
            self.offset,
            self.device,
        ];
        let mut reserved = [0; 64];
        for (place, word) in reserved.chunks_exact_mut(8).zip(words) {
            place.copy_from_slice(&word.to_ne_bytes());
        }
        CuIpcMemHandle { reserved }
    }

    /// From opaque bytes, if they are ours.
    pub fn from_handle(handle: &CuIpcMemHandle) -> Option<Self> {
        let mut words = [0; 8];
        for (word, bytes) in words.iter_mut().zip(handle.reserved.chunks_exact(8)) {
            *word = u64::from_ne_bytes(bytes.try_into().ok()?);
        }
        let [magic, pid, id, base, bytes, file, offset, device] = words;
        (magic == MAGIC).then_some(Self {
            pid,
            id,
            base,
            bytes,
            file,
            offset,
            device,
        })
    }
}

/// What has been shared and what has been opened.
#[derive(Debug, Default)]
pub struct Ipc {
    /// Files by the first address that they are mapped at.
    shared: BTreeMap<u64, OwnedFd>,
    /// Opened handles: the address that each was given, and how often.
    opened: BTreeMap<(u64, u64), (u64, u32)>,
}

impl State {
    /// `cuIpcGetMemHandle`.
    pub fn share(&mut self, pointer: u64) -> Answer<Ticket> {
        let found = self.memory.holding(pointer);
        let found = *found.ok_or(CuResult::INVALID_VALUE)?;
        require(found.kind == Kind::Device)?;
        let page = self.machine.page_bytes;
        let (start, length) = match found.backing {
            Backing::Pages { mapped, .. } => (found.base, mapped),
            Backing::Small => (found.base / page * page, page),
            _ => return Err(CuResult::INVALID_VALUE),
        };
        let file = match self.ipc.shared.get(&start) {
            Some(file) => file.as_raw_fd(),
            None => self.move_to_file(start, length)?,
        };
        let device = self.machine.visible.get(found.device).copied();
        Ok(Ticket {
            pid: u64::from(std::process::id()),
            id: found.id,
            base: found.base,
            bytes: found.bytes,
            file: file as u64,
            offset: found.base - start,
            device: u64::from(device.unwrap_or(0)),
        })
    }

    /// `cuIpcOpenMemHandle`. A handle of this process's own gives the allocation itself.
    pub fn open_shared(&mut self, at: Current, ticket: Ticket) -> Answer<u64> {
        let key = (ticket.pid, ticket.id);
        if let Some((base, count)) = self.ipc.opened.get_mut(&key) {
            *count += 1;
            return Ok(*base);
        }
        let base = if ticket.pid == u64::from(std::process::id()) {
            let found = self.memory.at(ticket.base);
            require(found.is_some_and(|allocation| allocation.id == ticket.id))?;
            ticket.base
        } else {
            self.map_shared(at, ticket)?
        };
        self.ipc.opened.insert(key, (base, 1));
        Ok(base)
    }

    /// `cuIpcCloseMemHandle`.
    pub fn close_shared(&mut self, base: u64) -> Answer {
        let mut opened = self.ipc.opened.iter_mut();
        let found = opened.find(|(_, (address, _))| *address == base);
        let (key, (_, count)) = found.ok_or(CuResult::INVALID_VALUE)?;
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
        if imported {
            self.free_allocation(base);
        }
        Ok(())
    }

    /// The memory at `start` is going: so is its file.
    pub(super) fn forget_shared(&mut self, start: u64) {
        self.ipc.shared.remove(&start);
    }

    fn move_to_file(&mut self, start: u64, length: u64) -> Answer<i32> {
        let file = host::memory_file(length).ok_or(CuResult::OUT_OF_MEMORY)?;
        let number = file.as_raw_fd();
        if !host::copy_to_file(number, start, length)
            || !host::map_file_over(start, length, number, 0)
        {
            return Err(CuResult::OUT_OF_MEMORY);
        }
        host::protect(start, length, Access::ReadWrite);
        self.ipc.shared.insert(start, file);
        Ok(number)
    }

    fn map_shared(&mut self, at: Current, ticket: Ticket) -> Answer<u64> {
        let path = format!("/proc/{}/fd/{}", ticket.pid, ticket.file);
        let open = File::options().read(true).write(true).open(path);
        let file = open.map_err(|_| CuResult::INVALID_VALUE)?;
        let mapped = ticket.offset + ticket.bytes;
        let start =
            host::map(mapped, self.machine.page_bytes, Access::None).ok_or(CuResult::MAP_FAILED)?;
        if !host::map_file_over(start, mapped, file.as_raw_fd(), 0) {
            host::unmap(start, mapped);
            return Err(CuResult::MAP_FAILED);
        }
        host::protect(start, mapped, Access::ReadWrite);
        let base = start + ticket.offset;
        self.memory.insert(Allocation {
            base,
            bytes: ticket.bytes,
            kind: Kind::Device,
            context: at.context,
            device: at.device,
            flags: 0,
            id: 0,
            backing: Backing::Imported { start, mapped },
            access: Access::ReadWrite,
        });
        Ok(base)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tickets_survive_the_opaque_bytes_and_others_are_refused() {
        let ticket = Ticket {
            pid: 1,
            id: 2,
            base: 3,
            bytes: 4,
            file: 5,
            offset: 6,
            device: 7,
        };
        assert_eq!(Ticket::from_handle(&ticket.to_handle()), Some(ticket));
        assert_eq!(
            Ticket::from_handle(&CuIpcMemHandle { reserved: [0; 64] }),
            None
        );
    }
}
