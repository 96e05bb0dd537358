//! A moment in which one call has the driver to itself.
//!
//! What a pool holds can be asked until it is destroyed. A call on another thread that makes it grow or
//! shrink between the last question and its end would leave a figure that nobody can find out any more.
//! So the call that destroys a pool keeps others out: calls that may move memory and have not begun wait
//! until it has ended, and it waits for those that have. Nobody waits longer than a few milliseconds,
//! as a call may be blocked in the driver by what a waiting thread would do next.

use core::sync::atomic::{AtomicU64, Ordering};

use gpumem_sys::wait;

use crate::call::{self, Counted};
use crate::thread::Thread;

/// The hold that is in force; 0 for none.
static HELD: AtomicU64 = AtomicU64::new(0);

/// How often somebody looks whether the wait is over: some 7 ms.
const LOOKS: u32 = 100;

/// Whether a call is to have the driver to itself.
#[inline]
pub(crate) fn is_on() -> bool {
    HELD.load(Ordering::SeqCst) != 0
}

/// Waits until the hold in force has ended. One that does not end in time is broken.
#[cold]
pub(crate) fn await_end() {
    let held = HELD.load(Ordering::SeqCst);
    if held != 0 && !wait::until(LOOKS, || HELD.load(Ordering::SeqCst) != held) {
        let _ = HELD.compare_exchange(held, 0, Ordering::SeqCst, Ordering::SeqCst);
    }
}

/// A hold, until it is dropped.
pub(crate) struct Hold {
    /// 0: somebody was at work for too long, and nobody is kept out.
    held: u64,
}

impl Hold {
    /// Has the driver to itself for the call in progress on this thread, or tries to.
    pub(crate) fn begin(thread: &Thread) -> Self {
        static LAST: AtomicU64 = AtomicU64::new(0);
        let counted = Counted::from_thread(thread);
        let mut held = LAST.fetch_add(1, Ordering::SeqCst) + 1;
        while HELD
            .compare_exchange(0, held, Ordering::SeqCst, Ordering::SeqCst)
            .is_err()
        {
            // The other one waits for this call.
            counted.end();
            await_end();
            counted.begin();
        }
        let own = u64::from(counted != Counted::Nowhere);
        if !wait::until(LOOKS, || call::no_more_than(own)) {
            let _ = HELD.compare_exchange(held, 0, Ordering::SeqCst, Ordering::SeqCst);
            held = 0;
        }
        Self { held }
    }

    /// Ends it. Whether the call had the driver to itself all the time.
    pub(crate) fn end(self) -> bool {
        let alone = self.release();
        core::mem::forget(self);
        alone
    }

    fn release(&self) -> bool {
        let (order, end) = (Ordering::SeqCst, 0);
        self.held != 0 && HELD.compare_exchange(self.held, end, order, order).is_ok()
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        let _ = self.release();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::thread;
    use std::sync::Mutex;
    use std::sync::atomic::AtomicBool;

    /// Holds are the whole process's: one test at a time.
    static ONE: Mutex<()> = Mutex::new(());

    /// A hold that nobody disturbed; other tests' calls may be in progress for a while.
    fn held() -> Hold {
        loop {
            let hold = thread::with(Hold::begin);
            if hold.held != 0 {
                return hold;
            }
        }
    }

    #[test]
    fn who_comes_meanwhile_waits_until_it_has_ended() {
        let _one = ONE.lock().unwrap_or_else(|error| error.into_inner());
        let kept_out = (0..50).any(|_| {
            let over = AtomicBool::new(false);
            let hold = held();
            std::thread::scope(|scope| {
                let other = scope.spawn(|| {
                    Counted::Moving.begin();
                    let waited = over.load(Ordering::SeqCst);
                    Counted::Moving.end();
                    waited
                });
                std::thread::sleep(core::time::Duration::from_millis(1));
                over.store(true, Ordering::SeqCst);
                let undisturbed = hold.end();
                // On a machine that is late the hold may have been broken first: that it says so.
                let waited = other.join().unwrap_or(false);
                assert!(waited || !undisturbed);
                waited && undisturbed
            })
        });
        assert!(kept_out);
    }

    #[test]
    fn one_that_lasts_too_long_is_broken_and_says_so() {
        let _one = ONE.lock().unwrap_or_else(|error| error.into_inner());
        let hold = held();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                Counted::Waiting.begin();
                Counted::Waiting.end();
            });
        });
        assert!(!is_on());
        assert!(!hold.end());
    }

    #[test]
    fn a_call_that_is_blocked_is_not_waited_for_for_long() {
        let _one = ONE.lock().unwrap_or_else(|error| error.into_inner());
        Counted::Moving.begin();
        let hold = thread::with(Hold::begin);
        Counted::Moving.end();
        assert!(!is_on());
        assert!(!hold.end());
    }
}
