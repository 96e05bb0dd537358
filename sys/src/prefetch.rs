//! Hints to the processor's caches.

/// Prefetches the cache line at `place` for a store that follows soon. A hint: it has no side effects and cannot
/// fault, whatever `place` is.
#[inline(always)]
pub fn for_store<T: ?Sized>(place: *const T) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: the instruction neither reads nor writes anything that a program could see.
    unsafe {
        core::arch::asm!(
            "prefetchw [{place}]",
            place = in(reg) place.cast::<u8>(),
            options(readonly, nostack, preserves_flags),
        );
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = place;
}
