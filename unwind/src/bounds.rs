//! Where the calling thread's stack lies.

/// The first address of the calling thread's stack, as far as it may grow, and the first one behind it; `None` where the system does not tell (for the
/// first thread it reads /proc). Slow: once for each thread.
pub(crate) fn stack() -> Option<(u64, u64)> {
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

#[cfg(test)]
mod tests {
    use super::*;

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
