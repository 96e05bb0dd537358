//! The kernel's clocks.

/// A clock's reading in nanoseconds; 0 if the clock does not exist.
#[inline]
pub fn read(id: libc::clockid_t) -> u64 {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: `time` is valid for writing; clock_gettime accesses only `time`.
    if unsafe { libc::clock_gettime(id, &raw mut time) } != 0 {
        return 0;
    }
    (time.tv_sec as u64)
        .wrapping_mul(1_000_000_000)
        .wrapping_add(time.tv_nsec as u64)
}
