//! The symbol tables of a loaded library, read in place. Allocates nothing, calls nothing.

use core::ffi::{CStr, c_char};

/// Tables of a loaded library: addresses, 0 for missing ones.
#[derive(Default)]
pub struct Tables {
    /// Its symbols.
    pub symbols: usize,
    /// Their names.
    pub strings: usize,
    pub(crate) gnu_hash: usize,
    pub(crate) hash: usize,
    /// Relocations of data, and their length in bytes.
    pub relocations: (usize, usize),
    /// The number of first entries that have no symbol.
    pub relative: usize,
    /// Relocations of calls, and their length in bytes.
    pub calls: (usize, usize),
}

/// The tables that a dynamic segment names.
///
/// # Safety
/// `dynamic` is the mapped dynamic segment of the library loaded at `base`.
pub unsafe fn tables(base: usize, dynamic: usize) -> Tables {
    const NULL: u64 = 0;
    const PLTRELSZ: u64 = 2;
    const HASH: u64 = 4;
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
            HASH => tables.hash = address,
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

/// The address of the function `name`: 0 if the library does not define it, or defines it by a resolver (IFUNC). None
/// if there are no usable tables.
///
/// # Safety
/// `tables` are those of the library loaded at `base`.
pub unsafe fn look_up(tables: &Tables, base: usize, name: &CStr) -> Option<usize> {
    if tables.symbols == 0 || tables.strings == 0 {
        return None;
    }
    let name = name.to_bytes();
    // SAFETY: the caller's promise.
    unsafe {
        match (tables.gnu_hash, tables.hash) {
            (0, 0) => None,
            (0, _) => Some(hash_find(tables, base, name)),
            _ => Some(gnu_hash_find(tables, base, name)),
        }
    }
}

/// # Safety
/// `tables` are those of the library loaded at `base`, with a table of the System V form.
unsafe fn hash_find(tables: &Tables, base: usize, name: &[u8]) -> usize {
    let word = |index: usize| {
        // SAFETY: within the table: see below.
        unsafe { (tables.hash as *const u32).add(index).read() as usize }
    };
    // The numbers of buckets and of symbols, the buckets, and the next symbol in the same bucket for each symbol.
    let buckets = word(0);
    if buckets == 0 {
        return 0;
    }
    let hash = name.iter().fold(0u32, |hash, &byte| {
        let hash = (hash << 4).wrapping_add(u32::from(byte));
        let high = hash & 0xf000_0000;
        (hash ^ (high >> 24)) & !high
    });
    let mut index = word(2 + hash as usize % buckets);
    while index != 0 {
        // SAFETY: a chained index is an index into the symbol table.
        match unsafe { address_of(tables, base, index, name) } {
            0 => index = word(2 + buckets + index),
            address => return address,
        }
    }
    0
}

/// The address of the symbol at `index`, if it is a function or a variable of that name; otherwise 0.
///
/// # Safety
/// `tables` are those of the library loaded at `base`, and have that many symbols.
unsafe fn address_of(tables: &Tables, base: usize, index: usize, name: &[u8]) -> usize {
    const GNU_IFUNC: u8 = 10;
    // SAFETY: the caller's promise; names in the string table are NUL-terminated.
    let (symbol, text) = unsafe {
        let symbol = &*(tables.symbols as *const libc::Elf64_Sym).add(index);
        let text = (tables.strings + symbol.st_name as usize) as *const c_char;
        (symbol, CStr::from_ptr(text))
    };
    let is_it = text.to_bytes() == name
        && symbol.st_value != 0
        && symbol.st_shndx != 0
        && symbol.st_info & 0xf != GNU_IFUNC;
    if is_it {
        base + symbol.st_value as usize
    } else {
        0
    }
}

/// # Safety
/// `tables` are those of the library loaded at `base`, and complete.
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
            match unsafe { address_of(tables, base, index as usize, name) } {
                0 => {}
                address => return address,
            }
        }
        if chained & 1 == 1 {
            return 0;
        }
        index += 1;
    }
}
