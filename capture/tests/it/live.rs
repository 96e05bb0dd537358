//! Reading while the capture is being written.

use std::sync::atomic::{AtomicU64, Ordering};

use gpumem_capture::*;

use crate::support::*;

/// The number of events that the producer may have written; the producer ends when this is dropped, also when a
/// check fails.
struct Allowed<'a>(&'a AtomicU64);

impl Drop for Allowed<'_> {
    fn drop(&mut self) {
        self.0.store(u64::MAX, Ordering::Release);
    }
}

fn produce(writer: &Writer, allowed: &AtomicU64) -> u64 {
    let mut n = 0;
    loop {
        match allowed.load(Ordering::Acquire) {
            u64::MAX => return n,
            most if n >= most => std::thread::yield_now(),
            _ => {
                let (time, kind) = (writer.now(), EventKind::ALLOC);
                let event = Event {
                    time,
                    ptr: n,
                    bytes: 7,
                    kind,
                    ..Event::default()
                };
                writer.event(&event).unwrap();
                n += 1;
            }
        }
    }
}

#[test]
fn a_running_capture_reads_as_a_whole_prefix() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("report.bin");
    let writer = Writer::create(&path, &patient(1024)).unwrap();
    let allowed = AtomicU64::new(0);
    let written = with_drain(writer, || {
        std::thread::scope(|scope| {
            let producer = scope.spawn(|| produce(writer, &allowed));
            let allowed = Allowed(&allowed);
            let mut before = 0;
            for round in 1..=30 {
                allowed.0.store(round * 5000, Ordering::Release);
                let counted = writer.counters(DeviceOrdinal(0), Level::TENSOR).allocations;
                let (records, integrity) = read(&path);
                assert!(integrity.is_whole(), "{integrity:?}");
                assert!(integrity.in_flight <= 1, "{integrity:?}");
                for (n, event) in events(&records).enumerate() {
                    assert_eq!(event.ptr, n as u64);
                }
                // All events that had returned when reading began, except the one that may be in a hook.
                assert!(
                    integrity.events + 1 >= counted,
                    "{} of {counted}",
                    integrity.events
                );
                assert!(integrity.events >= before);
                before = integrity.events;
            }
            drop(allowed);
            producer.join().unwrap()
        })
    });
    let (records, integrity) = read(&path);
    assert!(integrity.is_whole(), "{integrity:?}");
    assert_eq!(records.len() as u64, written);
}

#[test]
fn counters_read_from_the_file_are_always_consistent() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("report.bin");
    let writer = Writer::create(&path, &patient(65_536)).unwrap();
    let allowed = AtomicU64::new(0);
    with_drain(writer, || {
        std::thread::scope(|scope| {
            scope.spawn(|| produce(writer, &allowed));
            let allowed = Allowed(&allowed);
            let reader = Reader::open(&path).unwrap();
            // While the producer writes, a row may change at each read, and is then not returned.
            let read = || {
                let rows = reader.counters().rows;
                for (_, _, values) in &rows {
                    assert_eq!(values.live, 7 * values.allocations);
                    assert_eq!(
                        (values.peak, values.allocated_bytes),
                        (values.live, values.live)
                    );
                }
                rows.len()
            };
            for round in 1..=200 {
                let most = round * 2000;
                allowed.0.store(most, Ordering::Release);
                loop {
                    read();
                    let values = writer.counters(DeviceOrdinal(0), Level::TENSOR);
                    assert_eq!(values.live, 7 * values.allocations);
                    if values.allocations == most {
                        break;
                    }
                }
                // The drain may still have them open.
                while read() == 0 {
                    std::thread::yield_now();
                }
            }
        });
    });
}
