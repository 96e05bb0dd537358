//! A driver query: a driver function that is looked up once and bypasses our own hook of that name.

use core::ffi::{CStr, c_int};
use core::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use gpumem_unwind::modules;

use crate::hook;
use crate::resolve::libraries::{self, Home};

/// A driver function for queries, looked up once.
pub(super) struct Question {
    name: &'static CStr,
    /// 0 if it is unknown, 1 if the driver does not have it.
    address: AtomicUsize,
    /// The generation of unloaded modules in which that was found.
    generation: AtomicU64,
}

const MISSING: usize = 1;

impl Question {
    pub(super) const fn new(name: &'static CStr) -> Self {
        Self {
            name,
            address: AtomicUsize::new(0),
            generation: AtomicU64::new(0),
        }
    }

    pub(super) fn address(&self) -> Option<usize> {
        let generation = modules::generation();
        match self.address.load(Ordering::Relaxed) {
            known if known != 0 && self.generation.load(Ordering::Relaxed) == generation => {
                Some(known)
            }
            _ => Some(self.find(generation)),
        }
        .filter(|known| *known != MISSING)
    }

    #[cold]
    fn find(&self, generation: u64) -> usize {
        // Bypasses our own hook, if there is one of that name.
        let found = match libraries::find(Home::Driver, self.name, self.own()) {
            0 if libraries::is_loaded(Home::Driver) => MISSING,
            0 => return MISSING,
            found => found,
        };
        self.address.store(found, Ordering::Relaxed);
        self.generation.store(generation, Ordering::Relaxed);
        found
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
