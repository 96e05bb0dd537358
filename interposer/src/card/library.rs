//! libnvidia-ml.so.1, opened on first use and then kept.

use core::sync::atomic::Ordering;
use std::ffi::OsStr;

use nvml_wrapper::Nvml;

use super::state::CARD;

const UNTRIED: u8 = 0;
const TRYING: u8 = 1;
const OPEN: u8 = 2;
const FAILED: u8 = 3;

/// Ends all queries: the process ends, and the library may be shut down at any time. It stays mapped.
pub(crate) fn close() {
    CARD.closed.store(true, Ordering::SeqCst);
}

/// Whether [`close`] was called. Must be checked before each call of NVML, because the previous call may have
/// taken long.
pub(crate) fn is_closed() -> bool {
    CARD.closed.load(Ordering::SeqCst)
}

/// The library, if it is open and not closed, and this is the process that opened it.
pub(crate) fn opened() -> Option<&'static Nvml> {
    if CARD.state.load(Ordering::Acquire) != OPEN
        || CARD.opener.load(Ordering::Relaxed) != std::process::id()
        || is_closed()
    {
        return None;
    }
    // SAFETY: the pointer is that of a leaked library, published with Release.
    unsafe { CARD.nvml.load(Ordering::Acquire).as_ref() }
}

/// The library, opened now if that was not tried before. Does not wait for another thread that is opening it.
pub(crate) fn open() -> Option<&'static Nvml> {
    let take = || {
        CARD.state
            .compare_exchange(UNTRIED, TRYING, Ordering::AcqRel, Ordering::Acquire)
    };
    if !is_closed() && take().is_ok() {
        CARD.opener.store(std::process::id(), Ordering::Relaxed);
        let state = match Nvml::builder()
            .lib_path(OsStr::new("libnvidia-ml.so.1"))
            .init()
        {
            Ok(nvml) => {
                CARD.nvml
                    .store(Box::into_raw(Box::new(nvml)), Ordering::Release);
                OPEN
            }
            Err(error) => {
                let _ = CARD.problem.set(error.to_string());
                FAILED
            }
        };
        CARD.state.store(state, Ordering::Release);
    }
    opened()
}

/// Why it is not available; `None` if opening was not tried, or succeeded.
pub(crate) fn problem() -> Option<&'static str> {
    CARD.problem.get().map(String::as_str)
}
