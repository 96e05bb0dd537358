//! Counts how often the library was initialised.

use std::sync::atomic::{AtomicU32, Ordering};

pub(crate) static INITIALISED: AtomicU32 = AtomicU32::new(0);

pub(crate) fn is_initialised() -> bool {
    INITIALISED.load(Ordering::Acquire) > 0
}
