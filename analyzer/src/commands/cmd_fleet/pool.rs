//! Work on many things at once, its results in their order and few of them in memory.

use std::collections::BTreeMap;
use std::sync::{Condvar, Mutex, PoisonError};
use std::thread;

/// How far workers may be ahead of who takes the results, for each of them.
const AHEAD: usize = 2;

struct State<T> {
    next: usize,
    taken: usize,
    done: BTreeMap<usize, T>,
    is_over: bool,
}

/// Does `work` on each item, one at a time on each processor, and gives the results to `take` in the items' order. Ends early
/// if that fails.
pub fn in_order<I: Sync, T: Send, E>(
    items: &[I],
    work: impl Fn(&I) -> T + Sync,
    mut take: impl FnMut(&I, T) -> Result<(), E>,
) -> Result<(), E> {
    let workers = thread::available_parallelism().map_or(1, usize::from);
    let workers = workers.min(items.len()).max(1);
    let window = workers * AHEAD + 1;
    let state = Mutex::new(State {
        next: 0,
        taken: 0,
        done: BTreeMap::new(),
        is_over: false,
    });
    let changed = Condvar::new();
    let lock = || state.lock().unwrap_or_else(PoisonError::into_inner);
    let worker = || {
        loop {
            let mut now = lock();
            while !now.is_over && now.next >= now.taken + window {
                now = changed.wait(now).unwrap_or_else(PoisonError::into_inner);
            }
            let number = now.next;
            let Some(item) = items.get(number).filter(|_| !now.is_over) else {
                return;
            };
            now.next += 1;
            drop(now);
            let result = work(item);
            lock().done.insert(number, result);
            changed.notify_all();
        }
    };
    thread::scope(|scope| {
        let handles: Vec<_> = (0..workers).map(|_| scope.spawn(worker)).collect();
        let mut outcome = Ok(());
        for (number, item) in items.iter().enumerate() {
            let mut now = lock();
            let result = loop {
                if let Some(result) = now.done.remove(&number) {
                    break Some(result);
                }
                if handles.iter().all(thread::ScopedJoinHandle::is_finished) {
                    break now.done.remove(&number);
                }
                let wait = changed.wait_timeout(now, std::time::Duration::from_millis(500));
                now = wait.unwrap_or_else(PoisonError::into_inner).0;
            };
            now.taken = number + 1;
            drop(now);
            changed.notify_all();
            // None: the worker panicked, which the scope passes on.
            let Some(result) = result else { break };
            outcome = take(item, result);
            if outcome.is_err() {
                break;
            }
        }
        lock().is_over = true;
        changed.notify_all();
        outcome
    })
}
