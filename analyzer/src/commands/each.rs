//! The same for many captures, one on each processor, with a bar.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::thread;

use super::progress::Bar;

/// Does `what` with each of them, in their order as processors are free. `doing` stands before the bar.
pub fn each<T: Sync>(all: &[T], doing: &str, what: impl Fn(&T) + Sync) {
    each_with(all, doing, || (), |(), one| what(one));
}

/// The same, where each processor has something of its own, which `own` makes.
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
    let workers = thread::available_parallelism()
        .map_or(1, usize::from)
        .min(all.len());
    thread::scope(|scope| {
        for _ in 1..workers {
            scope.spawn(work);
        }
        work();
    });
}
