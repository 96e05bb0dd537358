use super::*;
use std::sync::Arc;
use std::sync::mpsc;

#[test]
fn the_end_waits_for_the_removal_of_rings() {
    let storage = Storage::default();
    let (begin, begun) = mpsc::channel::<()>();
    let is_done = Arc::new(AtomicBool::new(false));
    let done = Arc::clone(&is_done);
    let started = thread::start(c"gpumem-sweep", move || {
        let _ = begun.recv();
        done.store(true, Ordering::Release);
    });
    let _ = storage.sweep.set(started.expect("a thread"));
    storage.await_sweep(Duration::from_millis(1));
    assert!(!is_done.load(Ordering::Acquire));
    begin.send(()).expect("the thread waits");
    storage.await_sweep(Duration::from_secs(300));
    assert!(is_done.load(Ordering::Acquire));
}
