//! libnvidia-ml.so.1, opened when it is first needed and then kept.

use core::sync::atomic::{AtomicBool, AtomicPtr, AtomicU8, AtomicU32, Ordering};
use std::ffi::OsStr;
use std::sync::OnceLock;

use nvml_wrapper::Nvml;

const UNTRIED: u8 = 0;
const TRYING: u8 = 1;
const OPEN: u8 = 2;
const FAILED: u8 = 3;

static STATE: AtomicU8 = AtomicU8::new(UNTRIED);
static NVML: AtomicPtr<Nvml> = AtomicPtr::new(core::ptr::null_mut());
/// The process that opened it: NVML is of no use to a child forked since.
static OPENER: AtomicU32 = AtomicU32::new(0);
/// Why it could not be opened.
static PROBLEM: OnceLock<String> = OnceLock::new();

/// Whether nobody may ask any more.
static CLOSED: AtomicBool = AtomicBool::new(false);

/// Ends all questions: the process ends, and the library may be taken down at any moment. It stays mapped.
pub(crate) fn close() {
    CLOSED.store(true, Ordering::SeqCst);
}

/// Whether [`close`] was called. To be asked before each call of NVML, for the one before may have taken long.
pub(crate) fn is_closed() -> bool {
    CLOSED.load(Ordering::SeqCst)
}

/// The library, if it is open and not closed, and this is the process that opened it.
pub(crate) fn opened() -> Option<&'static Nvml> {
    if STATE.load(Ordering::Acquire) != OPEN
        || OPENER.load(Ordering::Relaxed) != std::process::id()
        || is_closed()
    {
        return None;
    }
    // SAFETY: the pointer is that of a leaked library, published with Release.
    unsafe { NVML.load(Ordering::Acquire).as_ref() }
}

/// The library, opened now if nobody has tried. Nobody waits for another thread that tries.
pub(crate) fn open() -> Option<&'static Nvml> {
    let take = || STATE.compare_exchange(UNTRIED, TRYING, Ordering::AcqRel, Ordering::Acquire);
    if !is_closed() && take().is_ok() {
        OPENER.store(std::process::id(), Ordering::Relaxed);
        let state = match Nvml::builder()
            .lib_path(OsStr::new("libnvidia-ml.so.1"))
            .init()
        {
            Ok(nvml) => {
                NVML.store(Box::into_raw(Box::new(nvml)), Ordering::Release);
                OPEN
            }
            Err(error) => {
                let _ = PROBLEM.set(error.to_string());
                FAILED
            }
        };
        STATE.store(state, Ordering::Release);
    }
    opened()
}

/// Why there is none; `None` while it has not been tried, or there is one.
pub(crate) fn problem() -> Option<&'static str> {
    PROBLEM.get().map(String::as_str)
}
