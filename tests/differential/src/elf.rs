//! Finds a function of a loaded library in the symbol table of the library's file, without `dlsym`
//! and its hooks. The planted fault "a dropped hook" calls the driver by such an address.

use std::ffi::CStr;
use std::mem::MaybeUninit;

const SECTION_DYNSYM: u32 = 11;

fn u16_at(file: &[u8], at: usize) -> Option<usize> {
    let bytes = file.get(at..at + 2)?.try_into().ok()?;
    Some(usize::from(u16::from_le_bytes(bytes)))
}

fn u32_at(file: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(file.get(at..at + 4)?.try_into().ok()?))
}

fn u64_at(file: &[u8], at: usize) -> Option<usize> {
    let bytes = file.get(at..at + 8)?.try_into().ok()?;
    usize::try_from(u64::from_le_bytes(bytes)).ok()
}

/// The offset of a defined dynamic symbol in the file's address space (64-bit little-endian ELF).
fn value_of(file: &[u8], name: &[u8]) -> Option<usize> {
    let (headers, size, count) = (
        u64_at(file, 0x28)?,
        u16_at(file, 0x3a)?,
        u16_at(file, 0x3c)?,
    );
    let header = |index: usize| headers + index * size;
    let table =
        (0..count).find(|index| u32_at(file, header(*index) + 4) == Some(SECTION_DYNSYM))?;
    let strings = u32_at(file, header(table) + 0x28)? as usize;
    let (symbols, bytes) = (
        u64_at(file, header(table) + 0x18)?,
        u64_at(file, header(table) + 0x20)?,
    );
    let strings = u64_at(file, header(strings) + 0x18)?;
    (0..bytes / 24).find_map(|index| {
        let symbol = symbols + index * 24;
        let at = strings + u32_at(file, symbol)? as usize;
        let found = file.get(at..at + name.len() + 1)?;
        let defined = u16_at(file, symbol + 6)? != 0;
        (defined && found.split_last() == Some((&0, name))).then(|| u64_at(file, symbol + 8))?
    })
}

/// The address of `name` in the library that contains the address `inside`.
pub fn address(inside: usize, name: &CStr) -> Option<usize> {
    let mut info = MaybeUninit::<libc::Dl_info>::zeroed();
    // SAFETY: dladdr fills the structure or leaves it zeroed, which is a valid value of it.
    let info = unsafe {
        libc::dladdr(inside as *const libc::c_void, info.as_mut_ptr());
        info.assume_init()
    };
    if info.dli_fname.is_null() {
        return None;
    }
    // SAFETY: the loader's names are NUL-terminated and live as long as the library.
    let path = unsafe { CStr::from_ptr(info.dli_fname) };
    let file = std::fs::read(path.to_str().ok()?).ok()?;
    Some(info.dli_fbase as usize + value_of(&file, name.to_bytes())?)
}
