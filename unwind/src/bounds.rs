//! The bounds of the calling thread's stack, and whether an address can be read.

/// The lowest address that the calling thread's stack may grow to, and the first one after the stack; `None` where the
/// system does not report them (for the first thread it reads /proc). Slow: called once for each thread.
pub fn stack() -> Option<(u64, u64)> {
    // SAFETY: an all-zero attribute object is valid memory for the call to fill.
    let mut attributes: libc::pthread_attr_t = unsafe { core::mem::zeroed() };
    // SAFETY: the calling thread is alive, and the object is valid for writing.
    if unsafe { libc::pthread_getattr_np(libc::pthread_self(), &mut attributes) } != 0 {
        return None;
    }
    let (mut start, mut bytes) = (core::ptr::null_mut(), 0usize);
    // SAFETY: filled above; both places are valid for writing.
    let told = unsafe { libc::pthread_attr_getstack(&attributes, &mut start, &mut bytes) } == 0;
    // SAFETY: filled above, and destroyed once.
    unsafe { libc::pthread_attr_destroy(&mut attributes) };
    told.then(|| (start as u64, (start as u64).saturating_add(bytes as u64)))
}

/// Whether the word at `address` can be read. One system call.
#[cfg(target_arch = "x86_64")]
#[cold]
pub(crate) fn is_readable(address: u64) -> bool {
    // SAFETY: the kernel copies the word, if it can, before it refuses to change the signal mask in a way
    // that does not exist; the thread's own errno stays as it was.
    unsafe {
        let errno = libc::__errno_location();
        let before = *errno;
        let none = core::ptr::null::<u64>();
        libc::syscall(
            libc::SYS_rt_sigprocmask,
            !0,
            address,
            none,
            size_of::<u64>(),
        );
        let refused = core::mem::replace(&mut *errno, before);
        refused == libc::EINVAL
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mapped_memory_is_distinguished_from_unmapped() {
        let here = 0u64;
        assert!(is_readable(&raw const here as u64));
        assert!(is_readable(
            mapped_memory_is_distinguished_from_unmapped as *const () as u64
        ));
        for none in [0, 8, 4096, 1 << 63, u64::MAX - 7, u64::MAX] {
            assert!(!is_readable(none), "{none:x}");
        }
        // SAFETY: new memory, of which one page is closed and nothing is read here.
        unsafe {
            let pages = libc::mmap(
                core::ptr::null_mut(),
                8192,
                libc::PROT_READ,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
                -1,
                0,
            );
            assert_eq!(
                libc::mprotect(pages.byte_add(4096), 4096, libc::PROT_NONE),
                0
            );
            *libc::__errno_location() = 7;
            assert!(is_readable(pages as u64 + 4088));
            assert!(!is_readable(pages as u64 + 4089));
            assert!(!is_readable(pages as u64 + 4096));
            assert_eq!(*libc::__errno_location(), 7);
        }
    }

    #[test]
    fn a_variable_on_the_stack_lies_within() {
        let check = || {
            let here = 0u8;
            let here = &raw const here as u64;
            let (start, end) = stack().unwrap();
            assert!((start..end).contains(&here), "{here:x} {start:x} {end:x}");
        };
        check();
        std::thread::spawn(check).join().unwrap();
    }
}
