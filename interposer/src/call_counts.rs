//! The number of calls of each hook, for the account, the durations of calls of memory functions, and the number of
//! calls in progress.
//!
//! Each thread counts in a separate row, so that a call costs a load and a store, without contention for a cache line.
//! A thread that ends leaves its row, with its counts, to the next one. Threads without a free row share one, in which
//! they count by atomic addition.

use core::ffi::c_void;
use core::ptr::null;
use core::sync::atomic::{AtomicU64, Ordering};

use gpumem_stacks::ThreadEnd;

use crate::call_times::{Outcome, Sum, TimeTable};
use crate::thread::{self, CallCounts, HOOKS};

/// Rows: one for each thread that counts alone, and one for all others.
const ROWS: usize = 64;
const SHARED: usize = ROWS - 1;
/// Tables of times.
const TABLES: usize = 8;

/// The calls of all threads.
#[repr(C, align(64))]
pub(crate) struct Calls {
    rows: [CallCounts; ROWS],
    /// The durations of calls. Threads of several rows share a table, because a table is large and such calls are
    /// rare.
    times: [TimeTable; TABLES],
    /// The rows in use by threads: a bit for each.
    taken: AtomicU64,
    at_end: ThreadEnd,
    /// Calls so far that may change memory, and those of them that have returned with their events recorded. In
    /// between, the driver's state and the recorded state differ.
    pub(crate) entered: AtomicU64,
    pub(crate) left: AtomicU64,
    /// Calls so far that synchronise, in which pools free unused memory, and those of them that have returned.
    pub(crate) waits: AtomicU64,
    pub(crate) waited: AtomicU64,
}

pub(crate) static CALLS: Calls = Calls {
    rows: [const { [const { AtomicU64::new(0) }; HOOKS] }; ROWS],
    times: [const { TimeTable::new() }; TABLES],
    taken: AtomicU64::new(0),
    at_end: ThreadEnd::new(thread_ends),
    entered: AtomicU64::new(0),
    left: AtomicU64::new(0),
    waits: AtomicU64::new(0),
    waited: AtomicU64::new(0),
};

/// A free row; None if all are in use.
fn take_row() -> Option<&'static CallCounts> {
    let free = |taken: u64| (taken.trailing_ones() as usize) < SHARED;
    let lowest = |taken: u64| free(taken).then_some(taken | (taken + 1));
    // The counts of its previous thread are visible.
    let before = CALLS
        .taken
        .fetch_update(Ordering::Acquire, Ordering::Relaxed, lowest);
    CALLS.rows.get(before.ok()?.trailing_ones() as usize)
}

/// Releases a row.
fn leave(row: *const CallCounts) {
    if let Some(place) = CALLS.rows.iter().position(|each| core::ptr::eq(each, row)) {
        CALLS.taken.fetch_and(!(1 << place), Ordering::Release);
    }
}

/// Releases the thread's row. If the thread calls a hook after this, it takes a row again, and this runs once more.
unsafe extern "C" fn thread_ends(_: *mut c_void) {
    leave(thread::with(|thread| thread.calls.replace(null())));
}

/// Counts a call of a thread that has no row yet, or has found no free one.
#[cold]
#[inline(never)]
fn count_without_a_row(id: u16) {
    let own = take_row();
    if let Some(row) = own {
        // Not null if a signal handler was in a hook meanwhile.
        leave(thread::with(|thread| thread.calls.replace(row)));
        thread::with_errno_kept(|| CALLS.at_end.ask(row));
    }
    let row = own.unwrap_or(&CALLS.rows[SHARED]);
    if let Some(counter) = row.get(usize::from(id)) {
        counter.fetch_add(1, Ordering::Relaxed);
    }
}

/// Counts a call of the hook of that number.
#[inline(always)]
pub(crate) fn count(id: u16) {
    // SAFETY: it is null or one of the rows, which are never taken away.
    let Some(row) = thread::with(|thread| unsafe { thread.calls.get().as_ref() }) else {
        return count_without_a_row(id);
    };
    if let Some(counter) = row.get(usize::from(id)) {
        // No other thread writes to this row while it belongs to this thread.
        counter.store(counter.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
    }
}

/// Adds a call of a timed function to the times.
pub(crate) fn took(place: usize, outcome: Outcome, ns: u64) {
    let row = thread::with(|thread| thread.calls.get()) as usize;
    let from = row.saturating_sub(CALLS.rows.as_ptr() as usize);
    if let Some(table) = CALLS.times.get(from / size_of::<CallCounts>() % TABLES) {
        table.add(place, outcome, ns);
    }
}

/// Times of the calls of a timed function by all threads.
pub(crate) fn times(place: usize, outcome: Outcome) -> Sum {
    Sum::of(CALLS.times.iter(), place, outcome)
}

/// Calls of the hook of that number by all threads.
pub(crate) fn calls(id: u16) -> u64 {
    CALLS
        .rows
        .iter()
        .filter_map(|row| row.get(usize::from(id)))
        .map(|counter| counter.load(Ordering::Relaxed))
        .sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Held by a test that needs many rows.
    static MANY_ROWS: std::sync::Mutex<()> = std::sync::Mutex::new(());

    #[test]
    fn no_call_is_lost_between_threads() {
        let _rows = MANY_ROWS.lock();
        let id = (HOOKS - 1) as u16;
        std::thread::scope(|scope| {
            for _ in 0..2 * ROWS {
                scope.spawn(|| (0..1000).for_each(|_| count(id)));
            }
        });
        assert_eq!(calls(id), 2 * ROWS as u64 * 1000);
    }

    #[test]
    fn threads_leave_their_rows_to_others() {
        let _rows = MANY_ROWS.lock();
        const ID: u16 = (HOOKS - 3) as u16;
        let counts_alone = || {
            count(ID);
            !thread::with(|thread| thread.calls.get()).is_null()
        };
        // Other tests may use some rows.
        let alone = (0..10 * ROWS)
            .filter(|_| std::thread::spawn(counts_alone).join().unwrap())
            .count();
        assert!(alone > 5 * ROWS, "{alone}");
        assert_eq!(calls(ID), 10 * ROWS as u64);
    }

    /// Seconds of processor time of this thread.
    fn spent() -> f64 {
        let mut time = libc::timespec {
            tv_sec: 0,
            tv_nsec: 0,
        };
        // SAFETY: the structure is valid for writing.
        unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &mut time) };
        time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
    }

    #[test]
    #[ignore = "a measurement: cargo test --release -p gpumem --lib call_counts -- --ignored --nocapture"]
    fn what_a_call_costs() {
        let rounds = 100_000_000u32;
        let began = spent();
        for _ in 0..rounds {
            count(core::hint::black_box((HOOKS - 2) as u16));
        }
        let each = (spent() - began) * 1e9 / f64::from(rounds);
        println!("{each:.2} ns for each call");
        assert!(each < 20.0);
    }
}
