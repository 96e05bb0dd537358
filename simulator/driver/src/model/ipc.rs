//! Memory shared between processes (`cuIpc*MemHandle`).
//!
//! An allocation becomes a file in memory when its handle is first requested: its contents are
//! copied to the file, and the file is mapped at the same address instead of the allocation.
//! Another process of the same user opens the file through `/proc` and maps it, too. That mapping
//! is an alias: the books of the process that opens it do not count it. When the owner frees the
//! memory while another process has it open, the card keeps it until that process closes it.

use gpumem_cuda_abi::CuIpcMemHandle;
use std::collections::BTreeMap;
use std::os::fd::OwnedFd;

pub(crate) const MAGIC: u64 = u64::from_ne_bytes(*b"gpumem\x01i");

/// The contents of the 64 opaque bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ticket {
    pub(crate) pid: u64,
    /// The number of the exporter's allocation, which identifies it.
    pub(crate) id: u64,
    pub(crate) bytes: u64,
    /// The exporter's file: its descriptor and serial number, and the offset of the allocation in
    /// it.
    pub(crate) file: u64,
    pub(crate) serial: u64,
    pub(crate) offset: u64,
    /// Index of the device on the machine.
    pub(crate) device: u64,
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

    /// From opaque bytes, if a simulated driver made them.
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

/// Memory that has been replaced by a file.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) file: OwnedFd,
    /// Its number, which is never reused.
    pub(crate) serial: u64,
}

pub(crate) fn file_name(serial: u64) -> String {
    format!("ipc:{serial}")
}

/// Shared and opened allocations.
#[derive(Debug, Default)]
pub struct Ipc {
    /// By the address of the file's mapping.
    pub(crate) shared: BTreeMap<u64, Shared>,
    pub(crate) serials: u64,
    /// Opened handles, with their address and the number of opens.
    pub(crate) opened: BTreeMap<(u64, u64), (u64, u32)>,
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
