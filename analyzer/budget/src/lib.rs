//! How much memory this process may use, so that a small file that makes large work ends with one line and not with
//! this machine out of memory.
//!
//! [`Counted`] is the program's allocator. Readers of captures ask [`check`] from time to time and stop with an error.
//! What goes on to allocate ends the process, a quarter above the budget.

mod free;

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

pub use free::half_of_free;

/// A thread adds what it has allocated to the sum in steps of this many bytes.
const STEP: i64 = 64 << 10;

static USED: AtomicI64 = AtomicI64::new(0);
static BUDGET: AtomicU64 = AtomicU64::new(u64::MAX);
static LAST_WORDS: OnceLock<String> = OnceLock::new();

thread_local! {
    static NOT_ADDED: Cell<i64> = const { Cell::new(0) };
}

/// The budget is exceeded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Exceeded {
    /// The budget in bytes.
    pub budget: u64,
}

/// Sets the budget in bytes, and the line that is printed if the process is ended for it.
pub fn set(bytes: u64, last_words: String) {
    let _ = LAST_WORDS.set(last_words);
    BUDGET.store(bytes, Ordering::Relaxed);
}

/// Whether this process is within its budget. Always, if [`Counted`] is not its allocator.
///
/// # Errors
/// [`Exceeded`].
pub fn check() -> Result<(), Exceeded> {
    let budget = BUDGET.load(Ordering::Relaxed);
    match u64::try_from(USED.load(Ordering::Relaxed)) {
        Ok(used) if used > budget => Err(Exceeded { budget }),
        _ => Ok(()),
    }
}

/// The system's allocator, with a count of its bytes.
#[derive(Debug)]
pub struct Counted;

/// Adds to the sum.
fn add(bytes: i64) {
    let due = NOT_ADDED.try_with(|of| {
        let sum = of.get() + bytes;
        let is_due = sum.abs() >= STEP;
        of.set(if is_due { 0 } else { sum });
        if is_due { sum } else { 0 }
    });
    // A thread that is ending has no such variable any more.
    let due = due.unwrap_or(bytes);
    if due != 0 {
        let used = USED.fetch_add(due, Ordering::Relaxed) + due;
        if due > 0 {
            end_if_far_above(used);
        }
    }
}

fn end_if_far_above(used: i64) {
    let budget = BUDGET.load(Ordering::Relaxed);
    let most = budget.saturating_add(budget / 4);
    if u64::try_from(used).is_ok_and(|used| used > most) {
        end();
    }
}

#[cold]
fn end() -> ! {
    let words = LAST_WORDS.get().map_or("", String::as_str);
    // SAFETY: the text is valid for its length; nothing here allocates, and no code of the program runs afterwards.
    unsafe {
        libc::write(2, words.as_ptr().cast(), words.len());
        libc::_exit(1)
    }
}

// SAFETY: all calls go to the system's allocator as they are.
unsafe impl GlobalAlloc for Counted {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        add(layout.size() as i64);
        // SAFETY: the caller's.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        add(layout.size() as i64);
        // SAFETY: the caller's.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        add(-(layout.size() as i64));
        // SAFETY: the caller's.
        unsafe { System.dealloc(at, layout) }
    }

    unsafe fn realloc(&self, at: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        add(size as i64 - layout.size() as i64);
        // SAFETY: the caller's.
        unsafe { System.realloc(at, layout, size) }
    }
}
