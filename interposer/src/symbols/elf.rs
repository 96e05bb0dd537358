//! Finds a function in a loaded library by reading its symbol table.
//!
//! The only way to reach the real `dlsym` and `dlvsym` from a library that defines both: any ordinary
//! reference would be bound to our own. Allocates nothing and needs no initialisation, since the
//! standard library itself calls `dlsym` early.

use core::ffi::{CStr, c_char, c_int, c_void};
use core::mem::size_of;
use core::sync::atomic::{AtomicUsize, Ordering};

/// What a search over the loaded libraries is for, and what it found.
struct Search<'a> {
    name: &'a [u8],
    /// Whether a library of that file name is searched.
    wanted: fn(&[u8]) -> bool,
    /// An address that does not count: our own.
    own: usize,
    found: usize,
}

/// The address of the function `name` in the C library (or libdl, before glibc 2.34).
pub(crate) fn in_libc(name: &CStr) -> usize {
    let wanted = |base: &[u8]| base.starts_with(b"libc.so.") || base.starts_with(b"libdl.so.");
    search(name, wanted, 0)
}

/// The same, looked for only once: `known` is 0 until then.
pub(crate) fn in_libc_once(known: &AtomicUsize, name: &CStr) -> usize {
    match known.load(Ordering::Relaxed) {
        0 => {
            let found = in_libc(name);
            known.store(found, Ordering::Relaxed);
            found
        }
        found => found,
    }
}

/// The function `name` in the first loaded library that defines it, wherever the loader keeps that
/// library, other than the one at `own`.
pub(crate) fn anywhere(name: &CStr, own: usize) -> usize {
    search(name, |_| true, own)
}

fn search(name: &CStr, wanted: fn(&[u8]) -> bool, own: usize) -> usize {
    let name = name.to_bytes();
    let found = 0;
    let mut search = Search {
        name,
        wanted,
        own,
        found,
    };
    // SAFETY: the callback has the type that dl_iterate_phdr asks for, and `search` outlives the call.
    unsafe { libc::dl_iterate_phdr(Some(visit), (&raw mut search).cast()) };
    search.found
}

/// Bytes of a file name after its last slash.
fn base_name(path: &[u8]) -> &[u8] {
    path.rsplit(|&b| b == b'/').next().unwrap_or(path)
}

unsafe extern "C" fn visit(info: *mut libc::dl_phdr_info, _: usize, data: *mut c_void) -> c_int {
    // SAFETY: dl_iterate_phdr passes a valid structure and the pointer that `in_libc` gave it.
    let (info, search) = unsafe { (&*info, &mut *data.cast::<Search<'_>>()) };
    if info.dlpi_name.is_null() {
        return 0;
    }
    // SAFETY: the loader's names are NUL-terminated and outlive the iteration.
    let path = unsafe { CStr::from_ptr(info.dlpi_name) }.to_bytes();
    let base = base_name(path);
    if !(search.wanted)(base) {
        return 0;
    }
    // SAFETY: the structure describes a library that stays loaded while it is visited.
    let found = unsafe { look_up(info, search.name) }.unwrap_or(0);
    if found == 0 || found == search.own {
        return 0;
    }
    search.found = found;
    1
}

/// Whether a library's segments hold `address`.
///
/// # Safety
/// `info` describes a loaded library.
pub(crate) unsafe fn holds(info: &libc::dl_phdr_info, address: usize) -> bool {
    let base = info.dlpi_addr as usize;
    (0..usize::from(info.dlpi_phnum)).any(|index| {
        // SAFETY: the loader gives dlpi_phnum headers at dlpi_phdr.
        let header = unsafe { &*info.dlpi_phdr.add(index) };
        let start = base.wrapping_add(header.p_vaddr as usize);
        header.p_type == libc::PT_LOAD && address.wrapping_sub(start) < header.p_memsz as usize
    })
}

/// Where the first segment of a library is mapped: what the loader calls its base.
///
/// # Safety
/// `info` describes a loaded library.
pub(crate) unsafe fn start_of(info: &libc::dl_phdr_info) -> usize {
    let first = (0..usize::from(info.dlpi_phnum))
        // SAFETY: the loader gives dlpi_phnum headers at dlpi_phdr.
        .map(|index| unsafe { &*info.dlpi_phdr.add(index) })
        .find(|header| header.p_type == libc::PT_LOAD);
    let offset = first.map_or(0, |header| header.p_vaddr as usize & !4095);
    (info.dlpi_addr as usize).wrapping_add(offset)
}

/// What a search behind the library that holds an address is for, and what it found.
struct After<'a> {
    name: &'a [u8],
    address: usize,
    passed: bool,
    found: usize,
}

/// The function `name` in the first library that defines it and is loaded after the one that holds `address`: what
/// `RTLD_NEXT` means there, with no look-up of the loader's, which would take away the caller's `dlerror`.
pub(crate) fn after(address: usize, name: &CStr) -> usize {
    let mut after = After {
        name: name.to_bytes(),
        address,
        passed: false,
        found: 0,
    };
    // SAFETY: the callback has the type that dl_iterate_phdr asks for, and `after` outlives the call.
    unsafe { libc::dl_iterate_phdr(Some(visit_after), (&raw mut after).cast()) };
    after.found
}

unsafe extern "C" fn visit_after(
    info: *mut libc::dl_phdr_info,
    _: usize,
    data: *mut c_void,
) -> c_int {
    // SAFETY: dl_iterate_phdr passes a valid structure and the pointer that it was given.
    let (info, after) = unsafe { (&*info, &mut *data.cast::<After<'_>>()) };
    if !after.passed {
        // SAFETY: the structure describes a library that stays loaded while it is visited.
        after.passed = unsafe { holds(info, after.address) };
        return 0;
    }
    // SAFETY: as above.
    after.found = unsafe { look_up(info, after.name) }.unwrap_or(0);
    c_int::from(after.found != 0)
}

/// What a look-up in the library that holds an address is for, and what it found.
struct Own<'a> {
    address: usize,
    name: &'a [u8],
    defined: Option<bool>,
}

/// Whether the library that holds `address` itself defines the function `name`; None if there is no
/// such library, or its symbols cannot be read.
pub(crate) fn defined_around(address: usize, name: &CStr) -> Option<bool> {
    let mut own = Own {
        address,
        name: name.to_bytes(),
        defined: None,
    };
    // SAFETY: the callback has the type that dl_iterate_phdr asks for, and `own` outlives the call.
    unsafe { libc::dl_iterate_phdr(Some(visit_own), (&raw mut own).cast()) };
    own.defined
}

unsafe extern "C" fn visit_own(
    info: *mut libc::dl_phdr_info,
    _: usize,
    data: *mut c_void,
) -> c_int {
    // SAFETY: dl_iterate_phdr passes a valid structure and the pointer that it was given.
    let (info, own) = unsafe { (&*info, &mut *data.cast::<Own<'_>>()) };
    // SAFETY: the structure describes a library that stays loaded while it is visited.
    unsafe {
        if !holds(info, own.address) {
            return 0;
        }
        own.defined = look_up(info, own.name).map(|found| found != 0);
    }
    1
}

/// Tables of a loaded library: addresses, 0 for those that it has not.
#[derive(Default)]
pub(crate) struct Tables {
    /// Its symbols.
    pub(crate) symbols: usize,
    /// Their names.
    pub(crate) strings: usize,
    gnu_hash: usize,
    /// Relocations of data, and their length in bytes.
    pub(crate) relocations: (usize, usize),
    /// How many of them, the first ones, name no symbol.
    pub(crate) relative: usize,
    /// Relocations of calls, and their length in bytes.
    pub(crate) calls: (usize, usize),
}

/// Looks `name` up in one library: 0 if it is not defined there, None if there is no table to tell by.
///
/// # Safety
/// `info` describes a loaded library.
pub(crate) unsafe fn look_up(info: &libc::dl_phdr_info, name: &[u8]) -> Option<usize> {
    // SAFETY: the caller's promise.
    let tables = unsafe { tables_of(info) };
    if tables.symbols == 0 || tables.strings == 0 || tables.gnu_hash == 0 {
        return None;
    }
    // SAFETY: the three tables belong to one loaded library.
    Some(unsafe { gnu_hash_find(&tables, info.dlpi_addr as usize, name) })
}

/// The tables of one library.
///
/// # Safety
/// `info` describes a loaded library.
pub(crate) unsafe fn tables_of(info: &libc::dl_phdr_info) -> Tables {
    let base = info.dlpi_addr as usize;
    let mut tables = Tables::default();
    for index in 0..usize::from(info.dlpi_phnum) {
        // SAFETY: the loader gives dlpi_phnum headers at dlpi_phdr.
        let header = unsafe { &*info.dlpi_phdr.add(index) };
        if header.p_type == libc::PT_DYNAMIC {
            // SAFETY: the dynamic segment of a loaded library is mapped and ends with a null tag.
            tables = unsafe { dynamic_tables(base, base.wrapping_add(header.p_vaddr as usize)) };
        }
    }
    tables
}

/// # Safety
/// `dynamic` is the mapped dynamic segment of the library loaded at `base`.
unsafe fn dynamic_tables(base: usize, dynamic: usize) -> Tables {
    const NULL: u64 = 0;
    const PLTRELSZ: u64 = 2;
    const STRTAB: u64 = 5;
    const SYMTAB: u64 = 6;
    const RELA: u64 = 7;
    const RELASZ: u64 = 8;
    const JMPREL: u64 = 23;
    const RELACOUNT: u64 = 0x6fff_fff9;
    const GNU_HASH: u64 = 0x6fff_fef5;
    let mut tables = Tables::default();
    let mut entry = dynamic as *const [u64; 2];
    loop {
        // SAFETY: entries run up to the null tag, which ends the loop.
        let [tag, value] = unsafe { entry.read() };
        // The loader has relocated these addresses, except where it left the segment read-only.
        let value = value as usize;
        let address = if value < base { base + value } else { value };
        match tag {
            NULL => return tables,
            STRTAB => tables.strings = address,
            SYMTAB => tables.symbols = address,
            GNU_HASH => tables.gnu_hash = address,
            RELA => tables.relocations.0 = address,
            RELASZ => tables.relocations.1 = value,
            JMPREL => tables.calls.0 = address,
            PLTRELSZ => tables.calls.1 = value,
            RELACOUNT => tables.relative = value,
            _ => {}
        }
        // SAFETY: the null tag has not been met, so another entry follows.
        entry = unsafe { entry.add(1) };
    }
}

/// # Safety
/// `tables` are those of the library loaded at `base`.
unsafe fn gnu_hash_find(tables: &Tables, base: usize, name: &[u8]) -> usize {
    // SAFETY: a GNU hash table begins with four words: buckets, first symbol, bloom words, shift.
    let [buckets, first, bloom, _] = unsafe { (tables.gnu_hash as *const [u32; 4]).read() };
    if buckets == 0 {
        return 0;
    }
    let hash = name.iter().fold(5381u32, |h, &b| {
        h.wrapping_mul(33).wrapping_add(u32::from(b))
    });
    let bucket_table = tables.gnu_hash + 16 + bloom as usize * size_of::<u64>();
    let chains = bucket_table + buckets as usize * size_of::<u32>();
    // SAFETY: the index is below the number of buckets.
    let mut index = unsafe {
        (bucket_table as *const u32)
            .add((hash % buckets) as usize)
            .read()
    };
    if index < first {
        return 0;
    }
    loop {
        // SAFETY: chain entries run parallel to the symbols from `first` on, up to an odd hash.
        let chained = unsafe { (chains as *const u32).add((index - first) as usize).read() };
        if chained | 1 == hash | 1 {
            // SAFETY: a chained index is an index into the symbol table.
            let symbol =
                unsafe { &*(tables.symbols as *const libc::Elf64_Sym).add(index as usize) };
            let text = (tables.strings + symbol.st_name as usize) as *const c_char;
            // SAFETY: names in the string table are NUL-terminated.
            if unsafe { CStr::from_ptr(text) }.to_bytes() == name && symbol.st_value != 0 {
                return base + symbol.st_value as usize;
            }
        }
        if chained & 1 == 1 {
            return 0;
        }
        index += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tells_what_a_library_defines() {
        let libc = in_libc(c"getpid");
        assert_eq!(defined_around(libc, c"malloc"), Some(true));
        assert_eq!(defined_around(libc, c"cuMemAlloc_v2"), Some(false));
        assert_eq!(defined_around(8, c"malloc"), None);
    }

    #[test]
    fn finds_functions_of_the_c_library() {
        let found = in_libc(c"getpid");
        assert_ne!(found, 0);
        // SAFETY: getpid takes nothing and returns an int.
        let getpid: extern "C" fn() -> c_int = unsafe { core::mem::transmute(found) };
        assert_eq!(getpid() as u32, std::process::id());
        assert_ne!(in_libc(c"dlvsym"), 0);
        assert_eq!(in_libc(c"no_such_function_anywhere"), 0);
        assert_eq!(anywhere(c"getpid", 0), found);
        assert_eq!(anywhere(c"getpid", found), 0);
    }

    #[test]
    fn finds_what_comes_after_a_library() {
        // In a test, our code is the program's, and it exports this function.
        let ours = crate::sigaction as *const () as usize;
        let next = after(ours, c"sigaction");
        assert!(next != 0 && next != ours && next == in_libc(c"sigaction"));
        assert_eq!(after(next, c"sigaction"), 0);
        assert_eq!(after(8, c"sigaction"), 0);
    }
}
