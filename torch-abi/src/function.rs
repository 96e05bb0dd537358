//! `std::function` of libstdc++, whose data is two words.

use core::ffi::c_void;

/// Bytes of a `std::function`.
pub const FUNCTION_BYTES: usize = 32;

/// A `std::function` that calls `invoker` with the address of its two words of data and then its arguments. References
/// and numbers are passed by address.
#[repr(C)]
pub struct Function {
    data: [u64; 2],
    manager: extern "C" fn(*mut [u64; 2], *const [u64; 2], u32) -> bool,
    invoker: *const c_void,
}

const _: () = assert!(size_of::<Function>() == FUNCTION_BYTES);

impl Function {
    /// `invoker` is an `extern "C"` function of the right type.
    pub fn new(data: [u64; 2], invoker: *const c_void) -> Self {
        Self {
            data,
            manager: manage,
            invoker,
        }
    }
}

/// Copies the data. There is nothing to destroy, and the type is never queried.
extern "C" fn manage(to: *mut [u64; 2], from: *const [u64; 2], what: u32) -> bool {
    const CLONE: u32 = 2;
    if what == CLONE {
        // SAFETY: libstdc++ passes the places of two functions' data, of 16 bytes each.
        unsafe { to.write(from.read()) };
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn data_is_copied_and_not_destroyed() {
        let (from, mut to) = ([1, 2], [0, 0]);
        assert!(!manage(&raw mut to, &raw const from, 2));
        assert_eq!(to, from);
        assert!(!manage(&raw mut to, core::ptr::null(), 3));
        assert_eq!(to, from);
    }
}
