//! The CUDA release that a library belongs to. Libraries of CUDA 12 are those of CUDA 13 under
//! other names; code that differs between them checks it here.

use std::sync::atomic::{AtomicBool, Ordering};

/// For this library only: each library has its own copy of this crate.
static TWELVE: AtomicBool = AtomicBool::new(false);

/// Makes this library one of CUDA 12: [`belongs_to_cuda12`](crate::belongs_to_cuda12).
pub fn set_cuda12() {
    TWELVE.store(true, Ordering::Relaxed);
}

/// Whether this library is one of CUDA 12.
pub fn is_cuda12() -> bool {
    TWELVE.load(Ordering::Relaxed)
}

/// The value for this library's CUDA release.
pub fn of<T>(twelve: T, thirteen: T) -> T {
    if is_cuda12() { twelve } else { thirteen }
}

/// Makes the library of the calling crate one of CUDA 12. It runs when the library is loaded,
/// before any call.
#[macro_export]
macro_rules! belongs_to_cuda12 {
    () => {
        #[used]
        // SAFETY: the loader calls the function that this section names before any function of the
        // library; it ignores its arguments.
        #[unsafe(link_section = ".init_array")]
        static BELONGS_TO_CUDA12: extern "C" fn() = {
            extern "C" fn begin() {
                $crate::release::set_cuda12();
            }
            begin
        };
    };
}
