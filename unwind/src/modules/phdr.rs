//! Modules by `dl_iterate_phdr`: on every C library, under the loader's lock.

use core::ffi::{CStr, c_int, c_void};

use crate::BuildId;
use crate::modules::Span;

/// Longest path of a module that is kept.
const LONGEST: usize = 4096;

/// Readable, in `p_flags` (`PF_R` of elf.h).
const READABLE: u32 = 4;

/// A module that holds the address asked for.
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

struct Search {
    address: u64,
    found: Option<Found>,
}

/// The module that holds `address`.
pub(super) fn find(address: u64) -> Option<Found> {
    let mut search = Search {
        address,
        found: None,
    };
    // SAFETY: the callback takes what is passed here, which outlives the call.
    unsafe { libc::dl_iterate_phdr(Some(visit), (&raw mut search).cast()) };
    search.found
}

unsafe extern "C" fn visit(info: *mut libc::dl_phdr_info, _: usize, data: *mut c_void) -> c_int {
    // SAFETY: the loader passes a valid structure, and `data` is what `find` gave it.
    let (info, search) = unsafe { (&*info, &mut *data.cast::<Search>()) };
    if info.dlpi_phdr.is_null() {
        return 0;
    }
    // SAFETY: the loader keeps the program headers as long as the module is loaded, and it cannot be
    // unloaded while the loader's lock is held.
    let headers =
        unsafe { core::slice::from_raw_parts(info.dlpi_phdr, usize::from(info.dlpi_phnum)) };
    let bias = info.dlpi_addr;
    if !loads(headers).any(|load| in_memory(bias, load).contains(&search.address)) {
        return 0;
    }
    let start = loads(headers).map(|load| in_memory(bias, load).start).min();
    let end = loads(headers).map(|load| in_memory(bias, load).end).max();
    let (Some(start), Some(end)) = (start, end) else {
        return 0;
    };
    let mut found = Found {
        span: Span { start, end, bias },
        build_id: build_id(bias, headers),
        name: [0; LONGEST],
        name_len: 0,
    };
    if !info.dlpi_name.is_null() {
        // SAFETY: the loader's names are NUL-terminated.
        let name = unsafe { CStr::from_ptr(info.dlpi_name) }.to_bytes();
        if let Some(room) = found.name.get_mut(..name.len()) {
            room.copy_from_slice(name);
            found.name_len = name.len();
        }
    }
    search.found = Some(found);
    1
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
        // The notes must lie in what the file gave to a readable segment.
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
    let mut unloads = 0u64;
    // SAFETY: as in `find`.
    unsafe { libc::dl_iterate_phdr(Some(first), (&raw mut unloads).cast()) };
    unloads
}

unsafe extern "C" fn first(info: *mut libc::dl_phdr_info, _: usize, data: *mut c_void) -> c_int {
    // SAFETY: as in `visit`; every glibc since 2.4 passes the counters.
    unsafe { *data.cast::<u64>() = (*info).dlpi_subs };
    1
}
