//! Reads of the interpreter's memory.

/// Whether `address` can be the address of an object: CPython aligns them to 8 bytes or more.
#[inline]
pub(crate) fn plausible(address: usize) -> bool {
    address & 7 == 0 && (0x1_0000..1 << 48).contains(&address)
}

/// The value at `offset` bytes from `base`.
///
/// # Safety
/// `base` is the address of a live structure of the interpreter that holds a `T` at `offset`.
#[inline]
pub(crate) unsafe fn load<T: Copy>(base: usize, offset: usize) -> T {
    // SAFETY: promised by the caller.
    unsafe { core::ptr::read_unaligned((base + offset) as *const T) }
}
