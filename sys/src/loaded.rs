//! The libraries that the loader has loaded, in its order: the program first.

use core::ffi::{CStr, c_int, c_void};
use core::ops::ControlFlow;

use crate::elf::{self, Tables};
use crate::{c_library, pages};

/// A loaded library, or the program itself. It stays loaded during the iteration.
#[derive(Clone, Copy)]
pub struct Library<'a> {
    info: &'a libc::dl_phdr_info,
}

/// Calls `look` with each library until it breaks; returns the value of the break. The loader holds a lock meanwhile,
/// so `look` must not call the loader. `look` must not panic.
pub fn find<T>(mut look: impl FnMut(Library<'_>) -> ControlFlow<T>) -> Option<T> {
    let mut found = None;
    let mut each = |library: Library<'_>| match look(library) {
        ControlFlow::Continue(()) => 0,
        ControlFlow::Break(value) => {
            found = Some(value);
            1
        }
    };
    let mut each: &mut dyn FnMut(Library<'_>) -> c_int = &mut each;
    // SAFETY: the callback has the required type, and gets the pointer to `each`, which outlives the call.
    unsafe { c_library::dl_iterate_phdr(visit, (&raw mut each).cast()) };
    found
}

unsafe extern "C" fn visit(info: *mut libc::dl_phdr_info, _: usize, look: *mut c_void) -> c_int {
    // SAFETY: the loader passes a valid structure, and the pointer that `find` gave it.
    let (info, look) = unsafe {
        (
            &*info,
            &mut *look.cast::<&mut dyn FnMut(Library<'_>) -> c_int>(),
        )
    };
    look(Library { info })
}

impl<'a> Library<'a> {
    /// The difference between addresses in memory and addresses in its file.
    pub fn bias(&self) -> usize {
        self.info.dlpi_addr as usize
    }

    /// Its path as stored by the loader; empty for the program.
    pub fn path(&self) -> &'a CStr {
        match self.info.dlpi_name.is_null() {
            true => c"",
            // SAFETY: the loader's names are NUL-terminated and stay as long as the library.
            false => unsafe { CStr::from_ptr(self.info.dlpi_name) },
        }
    }

    /// The file name at the end of its path.
    pub fn file_name(&self) -> &'a [u8] {
        let path = self.path().to_bytes();
        path.rsplit(|&byte| byte == b'/').next().unwrap_or(path)
    }

    /// Its program headers.
    pub fn headers(&self) -> &'a [libc::Elf64_Phdr] {
        match self.info.dlpi_phdr.is_null() {
            true => &[],
            // SAFETY: the loader gives dlpi_phnum headers there and keeps them as long as the library is loaded.
            false => unsafe {
                core::slice::from_raw_parts(self.info.dlpi_phdr, self.info.dlpi_phnum.into())
            },
        }
    }

    /// Its tables.
    pub fn tables(&self) -> Tables {
        let mut headers = self.headers().iter();
        match headers.find(|header| header.p_type == libc::PT_DYNAMIC) {
            // SAFETY: the dynamic segment of a loaded library is mapped and ends with a null tag.
            Some(header) => unsafe {
                let place = self.bias().wrapping_add(header.p_vaddr as usize);
                elf::tables(self.bias(), place)
            },
            None => Tables::default(),
        }
    }

    /// The address of a symbol that it defines: 0 if it does not, None if it has no usable tables.
    pub fn symbol(&self, name: &CStr) -> Option<usize> {
        // SAFETY: the tables belong to this loaded library.
        unsafe { elf::look_up(&self.tables(), self.bias(), name) }
    }

    /// Whether an address is in one of its segments.
    pub fn holds(&self, address: usize) -> bool {
        self.headers().iter().any(|header| {
            let start = self.bias().wrapping_add(header.p_vaddr as usize);
            header.p_type == libc::PT_LOAD && address.wrapping_sub(start) < header.p_memsz as usize
        })
    }

    /// The addresses from its first segment to the end of its last one.
    pub fn span(&self) -> (usize, usize) {
        let loads = self.headers().iter();
        let loads = loads.filter(|header| header.p_type == libc::PT_LOAD);
        loads.fold((usize::MAX, 0), |(first, end), header| {
            let start = self.bias().wrapping_add(header.p_vaddr as usize);
            (first.min(start), end.max(start + header.p_memsz as usize))
        })
    }

    /// Whether all of these addresses are in its code.
    pub fn has_code(&self, addresses: core::ops::Range<usize>) -> bool {
        self.headers().iter().any(|header| {
            let start = self.bias().wrapping_add(header.p_vaddr as usize);
            header.p_type == libc::PT_LOAD
                && header.p_flags & libc::PF_X != 0
                && addresses.start >= start
                && addresses.end <= start + header.p_filesz as usize
        })
    }

    /// Whether all of these addresses are backed by its file and never written.
    pub fn has_constants(&self, addresses: core::ops::Range<usize>) -> bool {
        self.headers().iter().any(|header| {
            let start = self.bias().wrapping_add(header.p_vaddr as usize);
            header.p_type == libc::PT_LOAD
                && header.p_flags & libc::PF_R != 0
                && header.p_flags & libc::PF_W == 0
                && addresses.start >= start
                && addresses.end <= start + header.p_filesz as usize
        })
    }

    /// Whether an address is in a page that the loader makes read-only after relocation.
    pub fn is_relocated_read_only(&self, address: usize) -> bool {
        self.headers().iter().any(|header| {
            let start = self.bias().wrapping_add(header.p_vaddr as usize);
            header.p_type == libc::PT_GNU_RELRO
                && made_read_only(start, header.p_memsz as usize, pages::size()).contains(&address)
        })
    }

    /// The address of its first segment: the base, in the loader's terms.
    pub fn start(&self) -> usize {
        let mut loads = self
            .headers()
            .iter()
            .filter(|header| header.p_type == libc::PT_LOAD);
        let offset = loads
            .next()
            .map_or(0, |header| header.p_vaddr as usize & !4095);
        self.bias().wrapping_add(offset)
    }

    /// How many libraries have been loaded so far in this process.
    pub fn loads(&self) -> u64 {
        self.info.dlpi_adds
    }

    /// How many libraries have been unloaded so far in this process.
    pub fn unloads(&self) -> u64 {
        // Every glibc since 2.4 passes the counters.
        self.info.dlpi_subs
    }
}

/// Bytes of a loaded library that are never written. None if no library holds the whole range in such memory.
///
/// # Safety
/// The library that the address is in stays loaded.
pub unsafe fn constants(address: usize, length: usize) -> Option<&'static [u8]> {
    let end = address.checked_add(length)?;
    find(|library| match library.has_constants(address..end) {
        true => ControlFlow::Break(()),
        false => ControlFlow::Continue(()),
    })?;
    // SAFETY: the loader has mapped these bytes of the file, which stay by the caller's promise.
    Some(unsafe { core::slice::from_raw_parts(address as *const u8, length) })
}

/// The address of the first definition of a function or variable in a library, or the program, whose file name is
/// wanted; 0 if no library has one. A search in the loader's order, and not by the loader: the thread's `dlerror` stays.
pub fn symbol(name: &CStr, is_wanted: impl Fn(&[u8]) -> bool) -> usize {
    let found = find(|library| {
        let found = match is_wanted(library.file_name()) {
            true => library.symbol(name).unwrap_or(0),
            false => 0,
        };
        match found {
            0 => ControlFlow::Continue(()),
            found => ControlFlow::Break(found),
        }
    });
    found.unwrap_or(0)
}

/// The longest path of a library that is accepted.
const LONGEST: usize = 4096;

/// A handle of the first loaded library whose file name is wanted, or null. The handle is never closed, so the library
/// stays loaded.
pub fn handle_of(is_wanted: impl Fn(&[u8]) -> bool) -> *mut c_void {
    let mut path = [0; LONGEST];
    let found = find(|library| {
        let whole = library.path().to_bytes_with_nul();
        match path.get_mut(..whole.len()) {
            Some(room) if is_wanted(library.file_name()) => {
                room.copy_from_slice(whole);
                ControlFlow::Break(())
            }
            _ => ControlFlow::Continue(()),
        }
    });
    match found {
        // SAFETY: the path is NUL-terminated; RTLD_NOLOAD loads nothing and runs no constructor.
        Some(()) => unsafe {
            libc::dlopen(path.as_ptr().cast(), libc::RTLD_LAZY | libc::RTLD_NOLOAD)
        },
        None => core::ptr::null_mut(),
    }
}

/// The loader's information about the library and the symbol at an address, or zeros. The names that it points to are
/// valid while the library is loaded.
pub fn symbol_at(address: usize) -> libc::Dl_info {
    let mut info = core::mem::MaybeUninit::<libc::Dl_info>::zeroed();
    // SAFETY: dladdr fills the structure or leaves it zeroed, which is a valid value of it.
    unsafe {
        if address != 0 {
            libc::dladdr(address as *const c_void, info.as_mut_ptr());
        }
        info.assume_init()
    }
}

/// The pages that the loader makes read-only for a part of `length` bytes. Both ends are rounded down: the last page may
/// also hold data that is written.
fn made_read_only(start: usize, length: usize, page: usize) -> core::ops::Range<usize> {
    let down = |address: usize| address & !(page - 1);
    down(start)..down(start.wrapping_add(length))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_that_also_has_data_is_not_made_read_only() {
        const PAGE: usize = 4096;
        assert_eq!(made_read_only(0x3db0, 0x250, PAGE), 0x3000..0x4000);
        assert_eq!(made_read_only(0x3db0, 0x300, PAGE), 0x3000..0x4000);
        assert_eq!(made_read_only(0x3db0, 0x240, PAGE), 0x3000..0x3000);
        assert_eq!(made_read_only(0x13db0, 0x10250, 65536), 0x10000..0x20000);
    }

    #[test]
    fn a_loaded_library_has_a_handle() {
        assert!(!handle_of(|name| name.starts_with(b"libc.so.")).is_null());
        assert!(handle_of(|name| name.starts_with(b"no such library")).is_null());
    }

    #[test]
    fn the_program_comes_first_and_holds_this_test() {
        let here = the_program_comes_first_and_holds_this_test as *const () as usize;
        let mut place = 0;
        let found = find(|library| match library.holds(here) {
            true => ControlFlow::Break((place, library.path().is_empty(), library.start() <= here)),
            false => {
                place += 1;
                ControlFlow::Continue(())
            }
        });
        assert_eq!(found, Some((0, true, true)));
        let libc = libc::getpid as *const () as usize;
        let name = find(|library| match library.holds(libc) {
            true => ControlFlow::Break(library.file_name().to_vec()),
            false => ControlFlow::Continue(()),
        });
        assert!(name.is_some_and(|name| name.starts_with(b"libc.so")));
        assert!(
            find(|library| match library.holds(8) {
                true => ControlFlow::Break(()),
                false => ControlFlow::Continue(()),
            })
            .is_none()
        );
    }

    #[test]
    fn code_is_all_within_a_segment_that_is_executed() {
        static TEXT: [u8; 8] = *b"constant";
        let here = code_is_all_within_a_segment_that_is_executed as *const () as usize;
        let data = (&raw const TEXT) as usize;
        let found = find(|library| match library.holds(here) {
            true => ControlFlow::Break(
                [here..here + 1, data..data + 8, here..here + (1 << 40), 0..8]
                    .map(|addresses| library.has_code(addresses)),
            ),
            false => ControlFlow::Continue(()),
        });
        assert_eq!(found, Some([true, false, false, false]));
    }

    #[test]
    fn constants_are_bytes_that_nobody_writes() {
        static TEXT: [u8; 8] = *b"constant";
        static WRITTEN: std::sync::atomic::AtomicU64 = std::sync::atomic::AtomicU64::new(8);
        WRITTEN.store(9, std::sync::atomic::Ordering::Relaxed);
        // SAFETY: the program is never unloaded.
        let of = |at: usize, length| unsafe { constants(at, length) };
        let text = (&raw const TEXT) as usize;
        assert_eq!(of(text, 8), Some(&TEXT[..]));
        assert_eq!(of(text, 1 << 40), None);
        assert_eq!(of((&raw const WRITTEN) as usize, 8), None);
        assert_eq!(of(usize::MAX, 8), None);
    }
}
