//! Where the interpreter's symbols are: in the program, or in a libpython.

use core::ffi::{CStr, c_int, c_void};

use gpumem_sys::loaded;

/// Where the interpreter's symbols are.
pub(crate) struct Library {
    /// Whether it is a libpython; otherwise the program, or a library that contains an interpreter.
    is_libpython: bool,
}

/// Whether a file name is that of a libpython.
fn is_libpython(name: &[u8]) -> bool {
    let minor = name.strip_prefix(b"libpython3.");
    minor.is_some_and(|rest| rest.first().is_some_and(u8::is_ascii_digit))
}

impl Library {
    /// Python is in the program, in a library that contains it, or in a libpython that a plugin
    /// may have loaded privately.
    pub(crate) fn find() -> Option<Self> {
        let outside = Self {
            is_libpython: false,
        };
        if outside.symbol(c"Py_GetVersion").is_some() {
            return Some(outside);
        }
        let library = Self { is_libpython: true };
        library.symbol(c"Py_GetVersion")?;
        // The handle keeps the library loaded, because its structures are read after this.
        (!loaded::handle_of(is_libpython).is_null()).then_some(library)
    }

    /// The address of a symbol.
    pub(crate) fn symbol(&self, name: &CStr) -> Option<usize> {
        match loaded::symbol(name, |file| is_libpython(file) == self.is_libpython) {
            0 => None,
            address => Some(address),
        }
    }
}

/// The address of one of the interpreter's symbols; None if the process has no interpreter, or that one has no such
/// symbol.
pub fn symbol(name: &CStr) -> Option<usize> {
    Library::find()?.symbol(name)
}

/// First address of the function at `address`, and the first one after it, by its ELF symbol.
pub(crate) fn extent(address: usize) -> (u64, u64) {
    let mut info = core::mem::MaybeUninit::<libc::Dl_info>::zeroed();
    let mut symbol: *const libc::Elf64_Sym = core::ptr::null();
    // SAFETY: both results are valid for writing; RTLD_DL_SYMENT requests a pointer to the symbol.
    let found = unsafe {
        libc::dladdr1(
            address as *const c_void,
            info.as_mut_ptr(),
            (&raw mut symbol).cast::<*mut c_void>(),
            RTLD_DL_SYMENT,
        )
    };
    if found == 0 || symbol.is_null() {
        return (0, 0);
    }
    // SAFETY: the loader found the symbol, and keeps it while the library is loaded.
    match unsafe { (*symbol).st_size } {
        0 => (0, 0),
        size => (address as u64, address as u64 + size),
    }
}

/// Whether two addresses are in one loaded file.
pub(crate) fn same_file(one: usize, other: usize) -> bool {
    let start = |address: usize| {
        let mut info = core::mem::MaybeUninit::<libc::Dl_info>::zeroed();
        // SAFETY: the result is valid for writing, and zeros are a value of it.
        let found = unsafe { libc::dladdr(address as *const c_void, info.as_mut_ptr()) };
        // SAFETY: as above.
        (found != 0).then(|| unsafe { info.assume_init() }.dli_fbase)
    };
    start(one).is_some_and(|file| start(other) == Some(file))
}

/// Requests the ELF symbol from dladdr1 (<dlfcn.h>).
const RTLD_DL_SYMENT: c_int = 1;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_functions_extent_is_its_symbols() {
        let (start, end) = extent(libc::malloc as *const () as usize);
        assert_eq!(start, libc::malloc as *const () as u64);
        assert!((16..100_000).contains(&(end - start)));
        assert_eq!(extent(0), (0, 0));
    }

    #[test]
    fn the_file_of_an_address_is_told() {
        let malloc = libc::malloc as *const () as usize;
        assert!(same_file(malloc, libc::free as *const () as usize));
        assert!(!same_file(malloc, extent as *const () as usize));
        assert!(!same_file(0, 0));
    }
}
