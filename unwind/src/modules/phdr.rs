//! Modules by `dl_iterate_phdr`: available in every C library, takes the loader's lock.

use core::ops::ControlFlow;

use gpumem_sys::loaded;

use super::span::Span;
use crate::BuildId;

/// Longest path of a module that is kept.
const LONGEST: usize = 4096;

/// Readable, in `p_flags` (`PF_R` of elf.h).
const READABLE: u32 = 4;

/// The module that holds the requested address.
pub(super) struct Found {
    pub(super) span: Span,
    pub(super) build_id: BuildId,
    name: [u8; LONGEST],
    name_len: usize,
}

impl Found {
    /// The loader's name of it; empty for the program itself.
    pub(super) fn name(&self) -> &[u8] {
        self.name.get(..self.name_len).unwrap_or(&[])
    }
}

/// The module that holds `address`.
pub(super) fn find(address: u64) -> Option<Found> {
    loaded::find(|library| {
        let (bias, headers) = (library.bias() as u64, library.headers());
        if !loads(headers).any(|load| in_memory(bias, load).contains(&address)) {
            return ControlFlow::Continue(());
        }
        let start = loads(headers).map(|load| in_memory(bias, load).start).min();
        let end = loads(headers).map(|load| in_memory(bias, load).end).max();
        let (Some(start), Some(end)) = (start, end) else {
            return ControlFlow::Continue(());
        };
        let mut found = Found {
            span: Span { start, end, bias },
            build_id: build_id(bias, headers),
            name: [0; LONGEST],
            name_len: 0,
        };
        let name = library.path().to_bytes();
        if let Some(room) = found.name.get_mut(..name.len()) {
            room.copy_from_slice(name);
            found.name_len = name.len();
        }
        ControlFlow::Break(found)
    })
}

fn loads(headers: &[libc::Elf64_Phdr]) -> impl Iterator<Item = &libc::Elf64_Phdr> {
    headers
        .iter()
        .filter(|header| header.p_type == libc::PT_LOAD && header.p_memsz > 0)
}

fn in_memory(bias: u64, header: &libc::Elf64_Phdr) -> core::ops::Range<u64> {
    let start = bias.wrapping_add(header.p_vaddr);
    start..start.saturating_add(header.p_memsz)
}

fn build_id(bias: u64, headers: &[libc::Elf64_Phdr]) -> BuildId {
    for header in headers.iter().filter(|h| h.p_type == libc::PT_NOTE) {
        // The notes must be in the part of a readable segment that comes from the file.
        let last = header.p_vaddr.saturating_add(header.p_filesz);
        let mapped = loads(headers).any(|load| {
            load.p_flags & READABLE != 0
                && load.p_vaddr <= header.p_vaddr
                && last <= load.p_vaddr.saturating_add(load.p_filesz)
        });
        if !mapped {
            continue;
        }
        // SAFETY: checked to lie in a loaded, readable segment, which stays while the loader's lock
        // is held.
        let notes = unsafe {
            core::slice::from_raw_parts(
                bias.wrapping_add(header.p_vaddr) as *const u8,
                header.p_filesz as usize,
            )
        };
        if let Some(id) = BuildId::in_notes(notes, header.p_align) {
            return id;
        }
    }
    BuildId::NONE
}

/// How many modules have been unloaded so far.
pub(super) fn unloads() -> u64 {
    loaded::find(|library| ControlFlow::Break(library.unloads())).unwrap_or(0)
}
