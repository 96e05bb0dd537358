//! A driver query: a driver function that is looked up once and bypasses our own hook of that name.

use core::ffi::{CStr, c_int};
use core::ops::ControlFlow;
use core::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use gpumem_sys::loaded;
use gpumem_unwind::modules;

use crate::hook;
use crate::resolve::libraries::{self, Home};

/// A driver function for queries, looked up once.
pub(super) struct Question {
    name: &'static CStr,
    /// 0 if it is unknown, 1 if it is missing.
    address: AtomicUsize,
    /// The generation of unloaded modules in which that was found.
    generation: AtomicU64,
    /// If it is missing: how many libraries had been loaded by then, or [`FINAL`] if the driver was one of them.
    loads: AtomicU64,
}

const MISSING: usize = 1;
const FINAL: u64 = u64::MAX;

impl Question {
    pub(super) const fn new(name: &'static CStr) -> Self {
        Self {
            name,
            address: AtomicUsize::new(0),
            generation: AtomicU64::new(0),
            loads: AtomicU64::new(0),
        }
    }

    pub(super) fn address(&self) -> Option<usize> {
        let generation = modules::generation();
        let known = match self.known(generation, loads) {
            Some(known) => known,
            None => self.find(generation),
        };
        Some(known).filter(|known| *known != MISSING)
    }

    /// The address, or [`MISSING`], as far as it is known for this generation and number of loaded libraries.
    fn known(&self, generation: u64, loads: impl FnOnce() -> u64) -> Option<usize> {
        let known = self.address.load(Ordering::Relaxed);
        if known == 0 || self.generation.load(Ordering::Relaxed) != generation {
            return None;
        }
        let then = self.loads.load(Ordering::Relaxed);
        (known != MISSING || then == FINAL || then == loads()).then_some(known)
    }

    #[cold]
    fn find(&self, generation: u64) -> usize {
        // Before the search: what is loaded during it may have the function.
        let loads = loads();
        // Bypasses our own hook, if there is one of that name.
        let (found, loads) = match libraries::find(Home::Driver, self.name, self.own()) {
            0 if libraries::is_loaded(Home::Driver) => (MISSING, FINAL),
            0 => (MISSING, loads),
            found => (found, FINAL),
        };
        self.loads.store(loads, Ordering::Relaxed);
        self.address.store(found, Ordering::Relaxed);
        self.generation.store(generation, Ordering::Relaxed);
        found
    }

    fn own(&self) -> usize {
        hook::by_name(self.name.to_bytes()).map_or(0, |hook| hook.address())
    }
}

/// How many libraries have been loaded so far in this process.
fn loads() -> u64 {
    loaded::find(|library| ControlFlow::Break(library.loads())).unwrap_or(0)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_miss_is_known_until_a_library_is_loaded() {
        let question = Question::new(c"cuNoSuchFunction");
        assert_eq!(question.known(modules::generation(), loads), None);
        assert_eq!(question.address(), None);
        let (generation, then) = (
            question.generation.load(Ordering::Relaxed),
            question.loads.load(Ordering::Relaxed),
        );
        assert!(then > 0);
        assert_eq!(question.known(generation, || then), Some(MISSING));
        if then != FINAL {
            assert_eq!(question.known(generation, || then + 1), None);
        }
        assert_eq!(question.known(generation + 1, || then), None);
    }
}
