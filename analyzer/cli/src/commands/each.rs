//! Processes many items in parallel, one on each CPU, with a progress bar.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use super::progress::Bar;

/// Runs `what` on each item, in order as CPUs become free. `doing` is the label of the bar.
pub fn each<T: Sync>(all: &[T], doing: &str, what: impl Fn(&T) + Sync) {
    each_with(all, doing, || (), |(), one| what(one));
}

/// The same with a state for each CPU, which `own` creates.
pub fn each_with<T: Sync, S>(
    all: &[T],
    doing: &str,
    own: impl Fn() -> S + Sync,
    what: impl Fn(&mut S, &T) + Sync,
) {
    let (next, done) = (AtomicUsize::new(0), Arc::new(AtomicU64::new(0)));
    let (so_far, total) = (Arc::clone(&done), all.len() as u64);
    let _bar = Bar::counting(doing, move || (so_far.load(Ordering::Relaxed), total));
    let work = || {
        let mut own = own();
        while let Some(one) = all.get(next.fetch_add(1, Ordering::Relaxed)) {
            what(&mut own, one);
            done.fetch_add(1, Ordering::Relaxed);
        }
    };
    thread::scope(|scope| {
        for _ in 1..processors().min(all.len()) {
            scope.spawn(work);
        }
        work();
    });
}

/// Runs `work` on each item like [`each`], and passes the results to `take` in the items' order, few of them in memory
/// at once. Ends early if `take` fails.
pub fn in_order<I: Sync, T: Send, E>(
    items: &[I],
    doing: &str,
    work: impl Fn(&I) -> T + Sync,
    mut take: impl FnMut(&I, T) -> Result<(), E>,
) -> Result<(), E> {
    // The number of items that workers may be ahead of `take`.
    let ahead = 2 * processors() + 1;
    let (allow, allowed) = channel();
    let (done, results) = channel();
    let (allowed, is_over) = (Mutex::new(allowed), AtomicBool::new(false));
    let (allowed, is_over, work) = (&allowed, &is_over, &work);
    let one = move |_: &I| {
        let next = allowed
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .recv();
        if let Some((number, item)) = next.ok().filter(|_| !is_over.load(Ordering::Relaxed)) {
            let result = catch_unwind(AssertUnwindSafe(|| work(item)));
            let _ = done.send((number, (item, result)));
        }
    };
    thread::scope(|scope| {
        scope.spawn(move || each(items, doing, one));
        // When it is dropped, workers stop waiting.
        let allow = allow;
        let mut next = items.iter().enumerate();
        let _ = next
            .by_ref()
            .take(ahead)
            .try_for_each(|one| allow.send(one));
        let (mut early, mut taken) = (BTreeMap::new(), 0);
        for (number, result) in results {
            early.insert(number, result);
            while let Some((item, result)) = early.remove(&taken) {
                taken += 1;
                let _ = next.next().map(|one| allow.send(one));
                let result = result.unwrap_or_else(|panic| resume_unwind(panic));
                take(item, result).inspect_err(|_| is_over.store(true, Ordering::Relaxed))?;
            }
        }
        Ok(())
    })
}

fn processors() -> usize {
    thread::available_parallelism().map_or(1, usize::from)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_come_in_order_until_one_is_refused() {
        let items: Vec<u64> = (0..500).collect();
        let work = |item: &u64| {
            (0..item * 37 % 100 * 50).for_each(|_| std::hint::spin_loop());
            item * 2
        };
        let taken = |limit: u64| {
            let mut taken = Vec::new();
            let ended = in_order(&items, "", work, |item, result| {
                taken.push(result);
                (*item < limit).then_some(()).ok_or(*item)
            });
            (taken, ended)
        };
        let all = Vec::from_iter((0..500).map(|item| item * 2));
        assert_eq!(taken(500), (all.clone(), Ok(())));
        assert_eq!(taken(200), (all[..=200].to_vec(), Err(200)));
    }

    #[test]
    #[should_panic(expected = "seven")]
    fn a_panic_of_a_worker_is_passed_on() {
        let items: Vec<u64> = (0..500).collect();
        let work = |item: &u64| assert!(*item != 7, "seven");
        let _ = in_order(&items, "", work, |_, ()| Ok::<_, ()>(()));
    }
}
