//! Whether the interpreter is being torn down.
//!
//! CPython keeps the answer in a word of `_PyRuntime`: the address of the thread state that finalizes, or 0. Its own
//! function for this (`Py_IsFinalizing`, before 3.13 `_Py_IsFinalizing`) reads only that word, so the word is read here
//! without a call. The function is called only if the word is not 0, or if its address is not known.

use core::ffi::c_int;
use core::sync::atomic::{AtomicUsize, Ordering, fence};

/// `Py_IsFinalizing`, before 3.13 `_Py_IsFinalizing`.
pub(crate) type IsFinalizing = unsafe extern "C" fn() -> c_int;

/// Reports whether the interpreter is being torn down, or has been.
#[derive(Debug)]
pub(crate) struct Finalizing {
    word: &'static AtomicUsize,
    function: IsFinalizing,
}

/// Replaces a word whose address is not known, so that the function is called each time. It never changes.
static UNKNOWN: AtomicUsize = AtomicUsize::new(1);

impl Finalizing {
    /// Calls the function each time, except when `word` is 0.
    ///
    /// # Safety
    /// `function` is the interpreter's; it may be called at any time. `word` is the address of the word that it reads, if
    /// it is known, in static memory of the interpreter, which stays loaded.
    pub(crate) unsafe fn new(function: IsFinalizing, word: Option<usize>) -> Self {
        let word = match word {
            // SAFETY: promised by the caller; the interpreter reads and writes the word atomically, or under the GIL.
            Some(address) => unsafe { AtomicUsize::from_ptr(address as *mut usize) },
            None => &UNKNOWN,
        };
        Self { word, function }
    }

    /// Reads before this call happen before the interpreter is queried, and reads after it happen after the query.
    #[inline(always)]
    pub(crate) fn get(&self) -> bool {
        fence(Ordering::Acquire);
        self.word.load(Ordering::Acquire) != 0 && self.ask()
    }

    #[cold]
    fn ask(&self) -> bool {
        // SAFETY: promised in `new`.
        unsafe { (self.function)() != 0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    static ASKED: AtomicUsize = AtomicUsize::new(0);
    static WORD: AtomicUsize = AtomicUsize::new(0);

    unsafe extern "C" fn answer() -> c_int {
        ASKED.fetch_add(1, Ordering::Relaxed);
        c_int::from(WORD.load(Ordering::Relaxed) != 0)
    }

    #[test]
    fn the_function_is_asked_only_while_the_word_is_not_zero() {
        // SAFETY: the function's word, which is static.
        let finalizing = unsafe { Finalizing::new(answer, Some(WORD.as_ptr() as usize)) };
        assert!(!finalizing.get());
        assert_eq!(ASKED.load(Ordering::Relaxed), 0);
        WORD.store(0x7000, Ordering::Relaxed);
        assert!(finalizing.get());
        assert_eq!(ASKED.load(Ordering::Relaxed), 1);
        WORD.store(0, Ordering::Relaxed);
        // SAFETY: a function that may be called at any time.
        let by_function = unsafe { Finalizing::new(answer, None) };
        assert!(!finalizing.get() && !by_function.get());
        assert_eq!(ASKED.load(Ordering::Relaxed), 2);
    }
}
