//! Which CUDA a library belongs to. Libraries of CUDA 12 are those of CUDA 13 under other names; what differs asks here.

use std::sync::atomic::{AtomicBool, Ordering};

/// Of this library alone: each has its own copy of this crate.
static TWELVE: AtomicBool = AtomicBool::new(false);

/// Makes this library one of CUDA 12: [`belongs_to_cuda12`](crate::belongs_to_cuda12).
pub fn set_cuda12() {
    TWELVE.store(true, Ordering::Relaxed);
}

/// Whether this library is one of CUDA 12.
pub fn is_cuda12() -> bool {
    TWELVE.load(Ordering::Relaxed)
}

/// What this library has: its own of CUDA 12 or of CUDA 13.
pub fn of<T>(twelve: T, thirteen: T) -> T {
    if is_cuda12() { twelve } else { thirteen }
}

/// Makes the library of the crate in which this stands one of CUDA 12, when it is loaded: before any call can come.
#[macro_export]
macro_rules! belongs_to_cuda12 {
    () => {
        #[used]
        // SAFETY: the loader calls what this section names, without arguments that matter, before any function of the library.
        #[unsafe(link_section = ".init_array")]
        static BELONGS_TO_CUDA12: extern "C" fn() = {
            extern "C" fn begin() {
                $crate::release::set_cuda12();
            }
            begin
        };
    };
}
