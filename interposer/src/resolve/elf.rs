//! Finds a function in a loaded library by reading its symbol table.
//!
//! This is the only way to get the real `dlsym` and `dlvsym` in a library that defines both: any ordinary
//! reference would be bound to our own. Allocates nothing and needs no initialisation, because the standard
//! library itself calls `dlsym` early.

use core::ffi::{CStr, c_char};
use core::mem::size_of;
use core::ops::ControlFlow;

use gpumem_sys::loaded::{self, Library};

/// The address of the function `name` in the C library (or libdl, before glibc 2.34).
pub(crate) fn in_libc(name: &CStr) -> usize {
    let wanted = |base: &[u8]| base.starts_with(b"libc.so.") || base.starts_with(b"libdl.so.");
    search(name, wanted, 0)
}

/// The function `name` in the first loaded library that defines it, in any scope or namespace of the loader, other
/// than the one at `own`.
pub(crate) fn anywhere(name: &CStr, own: usize) -> usize {
    search(name, |_| true, own)
}

fn search(name: &CStr, wanted: fn(&[u8]) -> bool, own: usize) -> usize {
    let found = loaded::find(|library| {
        let found = match wanted(library.file_name()) {
            true => look_up(library, name).unwrap_or(0),
            false => 0,
        };
        match found == 0 || found == own {
            true => ControlFlow::Continue(()),
            false => ControlFlow::Break(found),
        }
    });
    found.unwrap_or(0)
}

/// The function `name` in the first library that defines it and is loaded after the one that holds `address`: like
/// `RTLD_NEXT` there, without a look-up by the loader, which would clear the caller's `dlerror`.
pub(crate) fn after(address: usize, name: &CStr) -> usize {
    let mut is_after = false;
    let found = loaded::find(|library| {
        if !is_after {
            is_after = library.holds(address);
            return ControlFlow::Continue(());
        }
        match look_up(library, name) {
            None | Some(0) => ControlFlow::Continue(()),
            Some(found) => ControlFlow::Break(found),
        }
    });
    found.unwrap_or(0)
}

/// Whether the library that holds `address` itself defines the function `name`; None if there is no
/// such library, or its symbols cannot be read.
pub(crate) fn defined_around(address: usize, name: &CStr) -> Option<bool> {
    let found = loaded::find(|library| match library.holds(address) {
        true => ControlFlow::Break(look_up(library, name)),
        false => ControlFlow::Continue(()),
    });
    found.flatten().map(|found| found != 0)
}

/// Tables of a loaded library: addresses, 0 for missing ones.
#[derive(Default)]
pub(crate) struct Tables {
    /// Its symbols.
    pub(crate) symbols: usize,
    /// Their names.
    pub(crate) strings: usize,
    gnu_hash: usize,
    /// Relocations of data, and their length in bytes.
    pub(crate) relocations: (usize, usize),
    /// The number of first entries that have no symbol.
    pub(crate) relative: usize,
    /// Relocations of calls, and their length in bytes.
    pub(crate) calls: (usize, usize),
}

/// Looks `name` up in one library: 0 if it is not defined there, None if the library has no usable tables.
fn look_up(library: Library<'_>, name: &CStr) -> Option<usize> {
    let tables = tables_of(library);
    if tables.symbols == 0 || tables.strings == 0 || tables.gnu_hash == 0 {
        return None;
    }
    // SAFETY: the three tables belong to one loaded library.
    Some(unsafe { gnu_hash_find(&tables, library.bias(), name.to_bytes()) })
}

/// The tables of one library.
pub(crate) fn tables_of(library: Library<'_>) -> Tables {
    let mut headers = library.headers().iter();
    match headers.find(|header| header.p_type == libc::PT_DYNAMIC) {
        // SAFETY: the dynamic segment of a loaded library is mapped and ends with a null tag.
        Some(header) => unsafe {
            let place = library.bias().wrapping_add(header.p_vaddr as usize);
            dynamic_tables(library.bias(), place)
        },
        None => Tables::default(),
    }
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
        let getpid: extern "C" fn() -> i32 = unsafe { core::mem::transmute(found) };
        assert_eq!(getpid() as u32, std::process::id());
        assert_ne!(in_libc(c"dlvsym"), 0);
        assert_eq!(in_libc(c"no_such_function_anywhere"), 0);
        assert_eq!(anywhere(c"getpid", 0), found);
        assert_eq!(anywhere(c"getpid", found), 0);
    }

    #[test]
    fn finds_what_comes_after_a_library() {
        // In a test, our code belongs to the program, which exports this function.
        let ours = crate::sigaction as *const () as usize;
        let next = after(ours, c"sigaction");
        assert!(next != 0 && next != ours && next == in_libc(c"sigaction"));
        assert_eq!(after(next, c"sigaction"), 0);
        assert_eq!(after(8, c"sigaction"), 0);
    }
}
