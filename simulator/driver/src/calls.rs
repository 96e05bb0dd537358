//! Counts the calls of functions of virtual memory management. A replay of PyTorch's allocator
//! reads the counts.

use crate::ffi::{Answer, Text};
use libc::c_int;
use std::sync::atomic::{AtomicU64, Ordering};

/// Calls of one function.
pub struct Calls {
    name: &'static str,
    succeeded: AtomicU64,
    failed: AtomicU64,
}

macro_rules! counted {
    ($($name:ident $text:literal;)*) => {
        $(
            #[doc = concat!("`", $text, "`.")]
            pub static $name: Calls = Calls::new($text);
        )*
        static ALL: &[&Calls] = &[$(&$name),*];
    };
}

counted! {
    ADDRESS_RESERVE "cuMemAddressReserve";
    ADDRESS_FREE "cuMemAddressFree";
    CREATE "cuMemCreate";
    MAP "cuMemMap";
    SET_ACCESS "cuMemSetAccess";
    UNMAP "cuMemUnmap";
    RELEASE "cuMemRelease";
}

impl Calls {
    const fn new(name: &'static str) -> Self {
        Self {
            name,
            succeeded: AtomicU64::new(0),
            failed: AtomicU64::new(0),
        }
    }

    /// Runs a call and counts it by its result.
    pub fn count(&self, call: impl FnOnce() -> Answer) -> Answer {
        let answer = call();
        let counter = match answer {
            Ok(()) => &self.succeeded,
            Err(_) => &self.failed,
        };
        counter.fetch_add(1, Ordering::Relaxed);
        answer
    }
}

/// Returns the number of successful and failed calls of one of these functions so far. The result
/// is 0, or 1 if that function is not counted.
///
/// # Safety
/// `name` is a C string; `succeeded` and `failed` are null or valid for writing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gpumem_sim_calls(
    name: Text,
    succeeded: *mut u64,
    failed: *mut u64,
) -> c_int {
    let name = name.get().ok().and_then(|name| name.to_str().ok());
    let Some(calls) = ALL.iter().find(|calls| Some(calls.name) == name) else {
        return 1;
    };
    for (place, counter) in [(succeeded, &calls.succeeded), (failed, &calls.failed)] {
        if !place.is_null() {
            // SAFETY: the caller guarantees that a non-null pointer is valid.
            unsafe { place.write_unaligned(counter.load(Ordering::Relaxed)) };
        }
    }
    0
}
