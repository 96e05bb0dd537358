//! Finds a function in a loaded library by reading its symbol table: without a look-up by the loader, which would
//! clear the caller's `dlerror`, and past our own definitions of that name.

use core::ffi::CStr;
use core::ops::ControlFlow;

use gpumem_sys::c_library;
use gpumem_sys::loaded::{self, Library};

/// The address of the function `name` in the C library (or libdl, before glibc 2.34).
pub(crate) fn in_libc(name: &CStr) -> usize {
    c_library::find(name)
}

/// The function `name` in the first loaded library that defines it, in any scope or namespace of the loader, other
/// than the one at `own`.
pub(crate) fn anywhere(name: &CStr, own: usize) -> usize {
    loaded::find(|library| of(library, name, own)).unwrap_or(0)
}

/// Breaks with the function `name` of a library that defines it, unless it is the one at `own`.
pub(crate) fn of(library: Library<'_>, name: &CStr, own: usize) -> ControlFlow<usize> {
    match library.symbol(name).unwrap_or(0) {
        0 => ControlFlow::Continue(()),
        found if found == own => ControlFlow::Continue(()),
        found => ControlFlow::Break(found),
    }
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
        match library.symbol(name) {
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
        true => ControlFlow::Break(library.symbol(name)),
        false => ControlFlow::Continue(()),
    });
    found.flatten().map(|found| found != 0)
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
