//! Drivers out of our sight: `dlmopen` loads libraries into a namespace of their own, with their own C
//! library and their own libcuda. Nothing preloaded takes part in it, so all that can be done is to say
//! so.

use core::ffi::{CStr, c_int};
use core::mem::size_of;

use crate::symbols::{elf, order};

/// Whether the loader says that it never made another namespace. `debug` is what it tells debuggers, an
/// `r_debug` (0: not known). Since glibc 2.35 its version is 1 as long as there is one namespace.
///
/// # Safety
/// `debug` is 0 or the address of the loader's `r_debug`.
pub(crate) unsafe fn is_only_one(debug: usize) -> bool {
    // SAFETY: the C library's own text.
    let version = unsafe { CStr::from_ptr(libc::gnu_get_libc_version()) };
    // SAFETY: the caller's promise; the structure begins with its version.
    debug != 0 && tells_of_more(version.to_bytes()) && unsafe { *(debug as *const c_int) } == 1
}

/// Whether glibc of that version tells debuggers of further namespaces.
fn tells_of_more(version: &[u8]) -> bool {
    let mut numbers = version.split(|&byte| byte == b'.').map(|digits| {
        let digits = core::str::from_utf8(digits).unwrap_or("");
        digits.parse::<u32>().unwrap_or(0)
    });
    let (major, minor) = (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0));
    (major, minor) >= (2, 35)
}

/// Paths of loaded images that define `cuMemAlloc_v2` and are not the loader's in this namespace.
pub(crate) fn hidden_drivers() -> Vec<String> {
    let Ok(maps) = std::fs::read_to_string("/proc/self/maps") else {
        return Vec::new();
    };
    let mut found = Vec::new();
    for (start, path) in maps.lines().filter_map(first_mapping) {
        let known = order::place_of(start).is_some() || found.iter().any(|known| known == path);
        // SAFETY: the mapping is readable, begins a file, and its library stays loaded: we run in
        // the loader's last walk over the libraries, or in a process that does not unload drivers.
        if !known && unsafe { defines_the_driver(start) } {
            found.push(path.to_owned());
        }
    }
    found
}

/// Start and path of a mapping, if it is readable and begins a library's file.
fn first_mapping(line: &str) -> Option<(usize, &str)> {
    let mut fields = line.split_ascii_whitespace();
    let (range, rights, offset) = (fields.next()?, fields.next()?, fields.next()?);
    let path = fields.nth(2)?;
    let begins = rights.starts_with('r') && offset.bytes().all(|digit| digit == b'0');
    if !begins || !path.starts_with('/') || !path.contains(".so") {
        return None;
    }
    Some((
        usize::from_str_radix(range.split('-').next()?, 16).ok()?,
        path,
    ))
}

/// # Safety
/// `start` is where the file of a loaded library is mapped.
unsafe fn defines_the_driver(start: usize) -> bool {
    // SAFETY: a mapping is at least a page.
    let header = unsafe { &*(start as *const libc::Elf64_Ehdr) };
    let segments = usize::from(header.e_phnum) * size_of::<libc::Elf64_Phdr>();
    let whole = header.e_phoff as usize + segments <= 4096;
    if header.e_ident.get(..5) != Some(b"\x7fELF\x02") || header.e_type != libc::ET_DYN || !whole {
        return false;
    }
    // SAFETY: an all-zero structure is a valid value of it.
    let mut info: libc::dl_phdr_info = unsafe { core::mem::zeroed() };
    info.dlpi_addr = start as u64;
    info.dlpi_phdr = (start + header.e_phoff as usize) as *const libc::Elf64_Phdr;
    info.dlpi_phnum = header.e_phnum;
    // A file that is only mapped to be read has no segments where its headers say.
    // SAFETY: dlpi_phnum headers lie within the first page.
    let dynamic = (0..usize::from(info.dlpi_phnum))
        .map(|index| unsafe { &*info.dlpi_phdr.add(index) })
        .find(|segment| segment.p_type == libc::PT_DYNAMIC);
    let Some(dynamic) = dynamic else { return false };
    let address = start.wrapping_add(dynamic.p_vaddr as usize);
    // SAFETY: asks the kernel, which reads nothing.
    if !unsafe { is_mapped(address, dynamic.p_memsz as usize) } || !is_relocated(address, start) {
        return false;
    }
    // SAFETY: the image is loaded: its dynamic segment holds relocated addresses.
    let defined = unsafe { elf::look_up(&info, b"cuMemAlloc_v2") };
    defined.is_some_and(|found| found != 0)
}

/// # Safety
/// None of its own: mincore only answers.
unsafe fn is_mapped(address: usize, length: usize) -> bool {
    let page = address & !4095;
    let pages = (address + length - page).div_ceil(4096);
    let mut state = [0u8; 16];
    // SAFETY: the vector has a byte for each page asked for.
    pages <= state.len()
        && unsafe { libc::mincore(page as *mut libc::c_void, pages * 4096, state.as_mut_ptr()) }
            == 0
}

/// Whether the loader has been at a dynamic segment: its symbol table's address lies behind the base.
fn is_relocated(dynamic: usize, base: usize) -> bool {
    const SYMTAB: u64 = 6;
    let mut entry = dynamic as *const [u64; 2];
    for _ in 0..128 {
        // SAFETY: the segment is mapped and ends with a null tag, at which the walk ends.
        let [tag, value] = unsafe { entry.read() };
        match tag {
            0 => return false,
            SYMTAB => return value as usize > base,
            _ => {}
        }
        // SAFETY: the null tag has not been met, so another entry follows.
        entry = unsafe { entry.add(1) };
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_the_kernels_list() {
        let line = "7f00a0000000-7f00a0001000 r--p 00000000 08:01 42   /usr/lib/libcuda.so.580";
        assert_eq!(
            first_mapping(line),
            Some((0x7f00_a000_0000, "/usr/lib/libcuda.so.580"))
        );
        assert_eq!(
            first_mapping(&line.replace("00000000 08", "00001000 08")),
            None
        );
        assert_eq!(first_mapping(&line.replace("r--p", "---p")), None);
        assert_eq!(first_mapping("7f00-7f01 rw-p 00000000 00:00 0"), None);
    }

    #[test]
    fn asks_the_loader_first_where_it_tells() {
        assert!(tells_of_more(b"2.35") && tells_of_more(b"2.41") && tells_of_more(b"3.0"));
        assert!(!tells_of_more(b"2.34") && !tells_of_more(b"2.17") && !tells_of_more(b""));
        let told: [c_int; 2] = [1, 2];
        let known = tells_of_more(version_here());
        for (version, only) in told.iter().zip([known, false]) {
            let debug = version as *const c_int as usize;
            // SAFETY: the structure begins with its version, and no more of it is read.
            let is_only_one = unsafe { is_only_one(debug) };
            assert_eq!(is_only_one, only);
        }
        // SAFETY: 0 is not known.
        assert!(!unsafe { is_only_one(0) });
    }

    fn version_here() -> &'static [u8] {
        // SAFETY: the C library's own text.
        unsafe { CStr::from_ptr(libc::gnu_get_libc_version()) }.to_bytes()
    }

    #[test]
    fn a_test_hides_no_driver() {
        assert!(hidden_drivers().is_empty());
    }
}
