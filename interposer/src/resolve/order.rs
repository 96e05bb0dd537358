//! The order in which the loader searches libraries. Needed to resolve look-ups as if our library
//! did not exist.

use core::ops::ControlFlow;

use gpumem_sys::loaded;

/// The position of the library that holds `address` in the order of loading; 0 is the program
/// itself.
pub(crate) fn place_of(address: usize) -> Option<usize> {
    let mut place = 0;
    loaded::find(|library| match library.holds(address) {
        true => ControlFlow::Break(place),
        false => {
            place += 1;
            ControlFlow::Continue(())
        }
    })
}

/// Whether `address` is in the program itself and not in a library.
pub(crate) fn in_program(address: usize) -> bool {
    place_of(address) == Some(0)
}

/// Whether `address` is in the program or in a library that is searched before this one.
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
    use crate::resolve::elf;

    #[test]
    fn the_program_comes_first() {
        // In a test, our code belongs to the program; the C library does not.
        let ours = the_program_comes_first as *const () as usize;
        let libc = elf::in_libc(c"getpid");
        assert!(in_program(ours));
        assert!(!in_program(libc));
        assert!(!before_us(ours) && !before_us(libc));
        assert!(place_of(8).is_none() && !in_program(8));
    }
}
