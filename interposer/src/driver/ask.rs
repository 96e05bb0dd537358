//! A driver query: a driver function that is looked up once and bypasses our own hook of that name.

use core::ffi::{CStr, c_int};
use core::sync::atomic::{AtomicUsize, Ordering};

use crate::hook;
use crate::resolve::libraries::{self, Home};

/// A driver function for queries, looked up once.
pub(super) struct Question {
    name: &'static CStr,
    address: AtomicUsize,
}

impl Question {
    pub(super) const fn new(name: &'static CStr) -> Self {
        Self {
            name,
            address: AtomicUsize::new(0),
        }
    }

    pub(super) fn address(&self) -> Option<usize> {
        match self.address.load(Ordering::Relaxed) {
            // Bypasses our own hook, if there is one of that name.
            0 => match libraries::find(Home::Driver, self.name, self.own()) {
                0 => None,
                found => {
                    self.address.store(found, Ordering::Relaxed);
                    Some(found)
                }
            },
            known => Some(known),
        }
    }

    fn own(&self) -> usize {
        hook::by_name(self.name.to_bytes()).map_or(0, |hook| hook.address())
    }
}

/// Calls a driver function by name; `None` if the driver does not have it or it fails.
macro_rules! ask {
    ($name:literal, fn($($type:ty),*), $($argument:expr),*) => {{
        static QUESTION: $crate::driver::ask::Question = $crate::driver::ask::Question::new($name);
        gpumem_capture::assert_may_wait();
        QUESTION.address().and_then(|address| {
            type Function = unsafe extern "C" fn($($type),*) -> gpumem_cuda_abi::CuResult;
            // SAFETY: the driver exports this function with this type in every version we know.
            let function = unsafe { core::mem::transmute::<usize, Function>(address) };
            // SAFETY: out parameters point to live locals of the right type.
            let result = unsafe { function($($argument),*) };
            result.is_success().then_some(())
        })
    }};
}
pub(super) use ask;

/// Runs `f` without affecting a stream capture.
pub(super) fn relaxed<R>(f: impl FnOnce() -> R) -> R {
    const RELAXED: c_int = 2;
    let exchange =
        |mode: &mut c_int| ask!(c"cuThreadExchangeStreamCaptureMode", fn(*mut c_int), mode);
    let mut mode = RELAXED;
    let exchanged = exchange(&mut mode);
    let result = f();
    if exchanged.is_some() {
        let _ = exchange(&mut mode);
    }
    result
}
