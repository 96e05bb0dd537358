//! Counts of the calls to CUDA for memory. Calls of the runtime are counted in our wrappers ([`crate::decisions`]),
//! calls of the driver by the simulated driver.

use core::ffi::{CStr, c_char, c_int};
use core::sync::atomic::{AtomicU64, Ordering};

use crate::real;

/// Counts calls of a runtime function.
pub(crate) struct Counter {
    succeeded: AtomicU64,
    failed: AtomicU64,
}

pub(crate) static MALLOC: Counter = Counter::new();
pub(crate) static FREE: Counter = Counter::new();

impl Counter {
    const fn new() -> Self {
        Self {
            succeeded: AtomicU64::new(0),
            failed: AtomicU64::new(0),
        }
    }

    /// Counts a call.
    pub(crate) fn count(&self, succeeded: bool) {
        let counter = match succeeded {
            true => &self.succeeded,
            false => &self.failed,
        };
        counter.fetch_add(1, Ordering::Relaxed);
    }

    fn so_far(&self) -> [u64; 2] {
        [&self.succeeded, &self.failed].map(|counter| counter.load(Ordering::Relaxed))
    }
}

/// The driver's functions that PyTorch's expandable segments call.
const OF_THE_DRIVER: [&CStr; 7] = [
    c"cuMemAddressReserve",
    c"cuMemAddressFree",
    c"cuMemCreate",
    c"cuMemMap",
    c"cuMemSetAccess",
    c"cuMemUnmap",
    c"cuMemRelease",
];

/// Calls of `cudaMalloc`, `cudaFree` and the driver's functions, in this order: successful ones and failed ones.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CallCounts([[u64; 2]; 2 + OF_THE_DRIVER.len()]);

impl CallCounts {
    /// The calls since an earlier count.
    pub(crate) fn since(&self, before: &Self) -> Self {
        let mut since = *self;
        let words = since.0.as_flattened_mut().iter_mut();
        for (word, before) in words.zip(before.0.as_flattened()) {
            *word = word.wrapping_sub(*before);
        }
        since
    }
}

/// The calls so far in this process.
pub(crate) fn so_far() -> CallCounts {
    let mut counts = CallCounts::default();
    type Ask = unsafe extern "C" fn(*const c_char, *mut u64, *mut u64) -> c_int;
    let ask = real::driver(c"gpumem_sim_calls");
    // SAFETY: the simulated driver's function of this type.
    let ask = (ask != 0).then(|| unsafe { core::mem::transmute::<usize, Ask>(ask) });
    let driver = OF_THE_DRIVER.iter().map(|name| {
        let [mut succeeded, mut failed] = [0, 0];
        if let Some(ask) = ask {
            // SAFETY: a C string, and two places for numbers.
            unsafe { ask(name.as_ptr(), &raw mut succeeded, &raw mut failed) };
        }
        [succeeded, failed]
    });
    let all = [MALLOC.so_far(), FREE.so_far()].into_iter().chain(driver);
    counts
        .0
        .iter_mut()
        .zip(all)
        .for_each(|(to, from)| *to = from);
    counts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_between_two_moments_are_counted() {
        FREE.count(true);
        let before = so_far();
        MALLOC.count(true);
        MALLOC.count(false);
        MALLOC.count(true);
        FREE.count(false);
        let since = so_far().since(&before);
        assert_eq!(since.0[..2], [[2, 1], [0, 1]]);
        assert_eq!(since.0[2..], [[0; 2]; 7]);
    }
}
