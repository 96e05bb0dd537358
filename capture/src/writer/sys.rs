//! System calls of the writer.

use gpumem_sys::clock;
use gpumem_sys::signal::Blocked;

/// A random number from the kernel; from clocks and addresses if the kernel has no random numbers.
pub(crate) fn random() -> u64 {
    let mut bytes = [0; 8];
    // By its number: glibc has no function for it before 2.25, and the wheel runs on 2.17.
    // SAFETY: the buffer is valid for its length.
    let got = unsafe {
        libc::syscall(
            libc::SYS_getrandom,
            bytes.as_mut_ptr(),
            bytes.len(),
            libc::GRND_NONBLOCK,
        )
    };
    if usize::try_from(got) == Ok(bytes.len()) {
        return u64::from_le_bytes(bytes);
    }
    let here = (&raw const bytes) as u64;
    clock::read(libc::CLOCK_REALTIME).wrapping_mul(0x9e37_79b9_7f4a_7c15)
        ^ here
        ^ clock::read(libc::CLOCK_MONOTONIC)
}

/// Prevents the SIGXFSZ of a write past RLIMIT_FSIZE from ending the process, until it is dropped.
pub(super) fn no_file_size_signal() -> Blocked {
    Blocked::new()
}
