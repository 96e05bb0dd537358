//! The atomics of the ring, or loom's models of them in `--cfg loom` tests.

#[cfg(not(loom))]
pub(crate) use core::sync::atomic::{AtomicU64, Ordering, fence};
#[cfg(loom)]
pub(crate) use loom::sync::atomic::{AtomicU64, Ordering, fence};

/// Has the processor fetch the cache line of `place` for a store that is to come soon. A hint: it changes
/// nothing and cannot fault.
#[inline(always)]
pub(crate) fn expect_store<T>(place: &T) {
    #[cfg(all(target_arch = "x86_64", not(loom)))]
    // SAFETY: the instruction neither reads nor writes anything that a program could see.
    unsafe {
        core::arch::asm!(
            "prefetchw [{place}]",
            place = in(reg) core::ptr::from_ref(place),
            options(readonly, nostack, preserves_flags),
        );
    }
    #[cfg(not(all(target_arch = "x86_64", not(loom))))]
    let _ = place;
}
