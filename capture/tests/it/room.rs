//! Records that do not wait for room: refused until waiting does not help, and never under a lock.

use std::time::Duration;

use gpumem_capture::*;
use gpumem_sys::wait::waits;

use crate::support::*;

const SLOTS: u32 = 64;
const SOON: Duration = Duration::from_millis(1);

fn resize(writer: &Writer, n: u64) -> Event {
    Event {
        time: writer.now(),
        ptr: n,
        bytes: 10 * (n + 1),
        aux: 10 * n,
        kind: EventKind::RESIZE,
        level: Level::PHYSICAL,
        ..Event::default()
    }
}

fn with_writer(stall: Duration, test: impl FnOnce(&std::path::Path, &'static Writer)) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("report.bin");
    let options = Options::default().ring_slots(SLOTS).stall(stall);
    let writer = Writer::create(&path, &options).unwrap();
    test(&path, writer);
}

/// Fills the ring, which has no drain.
fn fill(writer: &Writer) {
    for n in 0..u64::from(SLOTS) {
        let recorded = writer.event_without_waiting(Attempt::FIRST, &resize(writer, n));
        assert_eq!(recorded.unwrap(), Ok(Seq(n)));
    }
}

#[test]
fn what_is_refused_has_not_happened() {
    // A stall of 100 waits.
    with_writer(Duration::from_millis(100), |_, writer| {
        fill(writer);
        let before = writer.counters(DeviceOrdinal(0), Level::PHYSICAL);
        assert_eq!(before.live, 640);
        let waited = waits();
        let event = resize(writer, 64);
        for _ in 0..1000 {
            let _ = writer
                .event_without_waiting(Attempt::FIRST, &event)
                .unwrap_err();
            let parts: [&[u8]; 1] = [b"x"];
            let _ = writer
                .definition_without_waiting(Attempt::FIRST, DefKind::NOTE, &parts)
                .unwrap_err();
            let mark = Event {
                kind: EventKind::MARK,
                ..Event::default()
            };
            let _ = writer
                .counter_snapshot_without_waiting(Attempt::FIRST, &mark, true)
                .unwrap_err();
        }
        let waited = waits() - waited;
        assert!(waited < 50, "{waited} waits in 3,000 records");
        assert_eq!(
            writer.counters(DeviceOrdinal(0), Level::PHYSICAL).live,
            before.live
        );
        assert_eq!(writer.events_lost(), 0);
    });
}

#[test]
fn what_waited_in_vain_is_lost_once_and_counted() {
    with_writer(SOON, |path, writer| {
        fill(writer);
        let mut attempts = 0;
        let recorded = writer.in_order(|attempt| {
            attempts += 1;
            writer.event_without_waiting(attempt, &resize(writer, 64))
        });
        assert_eq!((recorded, attempts), (Err(Lost::RingFull), 2));
        assert_eq!(writer.events_lost(), 1);
        assert_eq!(
            writer.counters(DeviceOrdinal(0), Level::PHYSICAL).live,
            650,
            "counters change even if the event is lost"
        );
        let (records, integrity) = read(path);
        assert_eq!((records.len(), integrity.events_lost), (64, 1));
    });
}

#[test]
fn changes_and_their_records_have_one_order_however_often_the_ring_is_full() {
    const THREADS: u64 = 4;
    const EACH: u64 = 5_000;
    with_writer(AT_MOST, |path, writer| {
        let state = std::sync::Mutex::new(0);
        std::thread::scope(|scope| {
            let drain = scope.spawn(|| writer.drain());
            let change = || {
                for _ in 0..EACH {
                    writer.in_order(|attempt| {
                        let mut state = state.lock().unwrap();
                        let _held = LockHeld::new();
                        let recorded =
                            writer.event_without_waiting(attempt, &resize(writer, *state))?;
                        assert!(recorded.is_ok(), "{recorded:?}");
                        *state += 1;
                        Ok(())
                    });
                }
            };
            let threads: Vec<_> = (0..THREADS).map(|_| scope.spawn(change)).collect();
            threads
                .into_iter()
                .for_each(|thread| thread.join().unwrap());
            writer.stop_drain();
            drain.join().unwrap();
        });
        let (records, integrity) = read(path);
        assert_eq!(integrity.events_lost, 0);
        assert_eq!(records.len() as u64, THREADS * EACH);
        let order = events(&records).map(|event| event.ptr);
        assert!(order.eq(0..THREADS * EACH));
    });
}

/// Whether `record` panics under a lock.
#[cfg(debug_assertions)]
fn panics(record: impl FnOnce(&Writer) + Send + 'static) -> bool {
    let mut result = None;
    with_writer(SOON, |_, writer| {
        let under_a_lock = move || {
            let _held = LockHeld::new();
            record(writer);
        };
        result = Some(std::thread::spawn(under_a_lock).join());
    });
    result.unwrap().is_err()
}

#[test]
#[cfg(debug_assertions)]
fn what_may_wait_panics_under_a_lock_even_if_there_is_room() {
    let hook = std::panic::take_hook();
    std::panic::set_hook(Box::new(|_| {}));
    let found = [
        panics(|writer| _ = writer.event(&resize(writer, 0))),
        panics(|writer| _ = writer.definition(DefKind::NOTE, &[b"x"])),
        panics(|writer| _ = writer.counter_snapshot(&Event::default(), true)),
        panics(|writer| _ = writer.event_without_waiting(Attempt::FIRST, &resize(writer, 0))),
    ];
    std::panic::set_hook(hook);
    assert_eq!(found, [true, true, true, false]);
}
