//! In which order the loader searches: which library comes before which, and what a library defines
//! itself. Needed to answer look-ups as if we were not there.

use core::ffi::{c_int, c_void};

use crate::symbols::elf;

/// What a walk over the loaded libraries looks for.
struct Walk {
    address: usize,
    place: usize,
    found: Option<usize>,
}

unsafe extern "C" fn visit(info: *mut libc::dl_phdr_info, _: usize, data: *mut c_void) -> c_int {
    // SAFETY: dl_iterate_phdr passes a valid structure and the pointer given to it below.
    let (info, walk) = unsafe { (&*info, &mut *data.cast::<Walk>()) };
    // SAFETY: the structure describes a library that stays loaded while it is visited.
    if unsafe { elf::holds(info, walk.address) } {
        walk.found = Some(walk.place);
        return 1;
    }
    walk.place += 1;
    0
}

/// The place, in the order of loading, of the library that holds `address`; 0 is the program itself.
pub(crate) fn place_of(address: usize) -> Option<usize> {
    let mut walk = Walk {
        address,
        place: 0,
        found: None,
    };
    // SAFETY: the callback has the type asked for, and `walk` outlives the call.
    unsafe { libc::dl_iterate_phdr(Some(visit), (&raw mut walk).cast()) };
    walk.found
}

/// Whether `address` lies in the program itself and in none of its libraries.
pub(crate) fn in_program(address: usize) -> bool {
    place_of(address) == Some(0)
}

/// Whether `address` lies in the program or in a library that is searched before this one.
pub(crate) fn before_us(address: usize) -> bool {
    let ours = place_of(before_us as *const () as usize);
    match (place_of(address), ours) {
        (Some(theirs), Some(ours)) => theirs < ours,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_program_comes_first() {
        // In a test, our code is the program's; the C library is not.
        let ours = the_program_comes_first as *const () as usize;
        let libc = elf::in_libc(c"getpid");
        assert!(in_program(ours));
        assert!(!in_program(libc));
        assert!(!before_us(ours) && !before_us(libc));
        assert!(place_of(8).is_none() && !in_program(8));
    }
}
