//! How often each hook was called: for the account.
//!
//! Each thread counts in a row of its own, so that a call costs a load and a store and no cache line is
//! fought over. Rows are given out once and never taken back; threads beyond the last one share a row,
//! in which they count by an atomic addition.

use core::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use gpumem_capture::{DefKind, ProcessKey, Writer};

use crate::hooks::ALL;
use crate::thread;

/// Hooks that are counted; a test compares it with the list.
const HOOKS: usize = 512;
/// Rows: threads that count alone, and one for all others.
const ROWS: usize = 64;
const SHARED: usize = ROWS - 1;

pub(crate) type Row = [AtomicU64; HOOKS];

static COUNTS: [Row; ROWS] = [const { [const { AtomicU64::new(0) }; HOOKS] }; ROWS];
static GIVEN: AtomicUsize = AtomicUsize::new(0);

/// Counts a call of a thread that has no row of its own yet, or will never have.
#[cold]
#[inline(never)]
fn count_without_a_row(id: u16) {
    let row = GIVEN
        .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |given| {
            (given < SHARED).then_some(given + 1)
        })
        .unwrap_or(SHARED);
    let Some(row) = COUNTS.get(row) else { return };
    if !core::ptr::eq(row, &COUNTS[SHARED]) {
        thread::with(|thread| thread.tally.set(row));
    }
    if let Some(counter) = row.get(usize::from(id)) {
        counter.fetch_add(1, Ordering::Relaxed);
    }
}

/// Counts a call of the hook of that number.
#[inline(always)]
pub(crate) fn count(id: u16) {
    // SAFETY: it is null or one of the rows, which are never taken away.
    let Some(row) = thread::with(|thread| unsafe { thread.tally.get().as_ref() }) else {
        return count_without_a_row(id);
    };
    if let Some(counter) = row.get(usize::from(id)) {
        // Nobody else writes to this row.
        counter.store(counter.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
    }
}

/// Calls of the hook of that number by all threads.
fn calls(id: u16) -> u64 {
    COUNTS
        .iter()
        .filter_map(|row| row.get(usize::from(id)))
        .map(|counter| counter.load(Ordering::Relaxed))
        .sum()
}

/// Writes each hook's calls as a fact about the process: `calls.cuMemAlloc_v2` = `17`. Done at exit.
pub(crate) fn write(writer: &'static Writer) {
    for hook in ALL {
        let count = calls(hook.id);
        if count == 0 {
            continue;
        }
        let key = format!("{}{}", ProcessKey::CALLS, hook.name.to_string_lossy());
        let value = count.to_string();
        let length = |text: &str| (text.len() as u32).to_le_bytes();
        let _ = writer.definition(
            DefKind::PROCESS,
            &[
                &length(&key),
                key.as_bytes(),
                &length(&value),
                value.as_bytes(),
            ],
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_is_room_for_every_hook() {
        assert!(ALL.iter().all(|hook| usize::from(hook.id) < HOOKS));
    }

    #[test]
    fn no_call_is_lost_between_threads() {
        let id = (HOOKS - 1) as u16;
        std::thread::scope(|scope| {
            for _ in 0..2 * ROWS {
                scope.spawn(|| (0..1000).for_each(|_| count(id)));
            }
        });
        assert_eq!(calls(id), 2 * ROWS as u64 * 1000);
    }

    /// Seconds of the processor's time that this thread has had.
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
    #[ignore = "a measurement: cargo test --release -p gpumem --lib tally -- --ignored --nocapture"]
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
