//! Memory shared between processes (`cuIpc*MemHandle`).
//!
//! An allocation becomes a file in memory when its handle is first asked for: the contents are
//! copied there and the file is mapped in the allocation's place, at the same address. Another
//! process of the same user opens the file through `/proc` and maps it too. It is an alias: the
//! books of the process that opens it do not count it. When the owner frees the memory while another
//! process has it open, the card keeps it until that process closes it.

use super::State;
use super::books::Kind;
use super::context::Current;
use super::memory::{Backing, Import};
use crate::ffi::{Answer, require};
use crate::files;
use crate::host::{self, Access};
use gpumem_cuda_abi::{CuIpcMemHandle, CuResult};
use std::collections::BTreeMap;
use std::os::fd::{AsRawFd, OwnedFd};

const MAGIC: u64 = u64::from_ne_bytes(*b"gpumem\x01i");

/// What the 64 opaque bytes hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ticket {
    pid: u64,
    /// The exporter's allocation: its number, for telling it from others.
    id: u64,
    bytes: u64,
    /// The exporter's file: its descriptor and its serial number; where in it the allocation
    /// starts.
    file: u64,
    serial: u64,
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
            self.bytes,
            self.file,
            self.serial,
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
        let [magic, pid, id, bytes, file, serial, offset, device] = words;
        (magic == MAGIC).then_some(Self {
            pid,
            id,
            bytes,
            file,
            serial,
            offset,
            device,
        })
    }
}

/// Memory that has become a file.
#[derive(Debug)]
struct Shared {
    file: OwnedFd,
    /// Its number, never used again.
    serial: u64,
}

fn file_name(serial: u64) -> String {
    format!("ipc:{serial}")
}

/// What has been shared and what has been opened.
#[derive(Debug, Default)]
pub struct Ipc {
    /// By the first address that the file is mapped at.
    shared: BTreeMap<u64, Shared>,
    serials: u64,
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
        if !self.ipc.shared.contains_key(&start) {
            self.move_to_file(start, length)?;
        }
        let shared = self.ipc.shared.get(&start);
        let shared = shared.ok_or(CuResult::INVALID_VALUE)?;
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

    /// `cuIpcOpenMemHandle`. Opened once more it is the same address, to be closed once more.
    ///
    /// # Errors
    /// `INVALID_CONTEXT` for a handle of this process's own, as NVIDIA's driver has it;
    /// `INVALID_VALUE` if the memory is gone.
    pub fn open_shared(&mut self, at: Current, ticket: Ticket) -> Answer<u64> {
        if ticket.pid == u64::from(std::process::id()) {
            return Err(CuResult::INVALID_CONTEXT);
        }
        let key = (ticket.pid, ticket.id);
        if let Some((base, count)) = self.ipc.opened.get_mut(&key) {
            *count += 1;
            return Ok(*base);
        }
        let path = files::path_in(ticket.pid, ticket.file);
        let file = files::open(&path).ok_or(CuResult::INVALID_VALUE)?;
        // A number that the owner has used again since for another file.
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
        require(imported)?;
        self.free_allocation(base);
        Ok(())
    }

    /// The memory at `start` is going: so is its file, if it has one.
    pub(super) fn forget_shared(&mut self, start: u64) -> Option<OwnedFd> {
        self.ipc.shared.remove(&start).map(|shared| shared.file)
    }

    /// What was opened at `base` is going, however often that was.
    pub(super) fn forget_opened(&mut self, base: u64) {
        self.ipc.opened.retain(|_, (address, _)| *address != base);
    }

    fn move_to_file(&mut self, start: u64, length: u64) -> Answer {
        self.ipc.serials += 1;
        let serial = self.ipc.serials;
        let file = files::memory_file(&file_name(serial), length);
        let file = file.ok_or(CuResult::OUT_OF_MEMORY)?;
        if !host::copy_to_file(file.as_raw_fd(), start, length)
            || !host::map_file_over(start, length, file.as_raw_fd(), 0)
        {
            return Err(CuResult::OUT_OF_MEMORY);
        }
        host::protect(start, length, Access::ReadWrite);
        self.ipc.shared.insert(start, Shared { file, serial });
        Ok(())
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
            bytes: 3,
            file: 4,
            serial: 5,
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
