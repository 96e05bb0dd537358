//! A ring without a drain: losses are counted and timed, and the counters stay exact.

use std::time::Duration;

use gpumem_capture::*;
use gpumem_sys::wait::waits;

use crate::support::*;

/// A small ring, and a stall that is declared after few waits.
fn soon() -> Options {
    Options::default()
        .ring_slots(64)
        .stall(Duration::from_millis(1))
}

fn alloc(writer: &Writer, n: u64) -> Event {
    Event {
        time: writer.now(),
        ptr: n,
        bytes: 10,
        kind: EventKind::ALLOC,
        ..Event::default()
    }
}

#[test]
fn with_no_drain_losses_are_counted_and_timed() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("report.bin");
    let writer = Writer::create(&path, &soon()).unwrap();
    let mut lost = Vec::new();
    let before = waits();
    for n in 0..1000 {
        let event = alloc(writer, n);
        if writer.event(&event) == Err(Lost::RingFull) {
            lost.push(event.time);
        }
    }
    // One stall, not one for each event.
    let waits = waits() - before;
    assert!((1..100).contains(&waits), "{waits} waits");
    assert_eq!(lost.len(), 936);
    assert_eq!(writer.events_lost(), 936);
    assert_eq!(
        writer.definition(DefKind::NOTE, &[b"x"]),
        Err(Lost::RingFull)
    );
    let counters = writer.counters(DeviceOrdinal(0), Level::TENSOR);
    assert_eq!(
        (counters.allocations, counters.live, counters.peak),
        (1000, 10_000, 10_000)
    );

    let (records, integrity) = read(&path);
    assert_eq!(records.len(), 64);
    assert!(!integrity.is_whole());
    assert_eq!(
        (integrity.events_lost, integrity.definitions_lost),
        (936, 1)
    );
    assert!(integrity.damage.is_empty(), "{integrity:?}");
    let range = LossRange {
        first: lost[0],
        last: lost[935],
        events: 936,
    };
    assert_eq!(integrity.loss_ranges, [range]);

    // A late drain empties the ring, and recording continues.
    let next = with_drain(writer, || {
        let mut n = 1000;
        loop {
            n += 1;
            if let Ok(seq) = writer.event(&alloc(writer, n)) {
                break seq;
            }
        }
    });
    assert_eq!(next, Seq(64));
    let (records, integrity) = read(&path);
    assert_eq!(records.len(), 65);
    assert!(
        integrity.events_lost >= 936 && integrity.damage.is_empty(),
        "{integrity:?}"
    );
}

#[test]
fn more_stalls_than_the_table_holds_are_merged_into_its_last_range() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("report.bin");
    let writer = Writer::create(&path, &soon()).unwrap();
    let mut n = 0;
    for _ in 0..70 {
        // A failed wait declares a stall; then the ring is emptied.
        while writer.event(&alloc(writer, n)).is_ok() {
            n += 1;
        }
        with_drain_once(writer);
    }
    let (records, integrity) = read(&path);
    assert_eq!(integrity.loss_ranges.len(), 64);
    assert_eq!(integrity.events_lost, 70);
    assert_eq!(integrity.loss_ranges[63].events, 7);
    assert_eq!(records.len() as u64, n);
    assert!(integrity.damage.is_empty(), "{integrity:?}");
}

fn with_drain_once(writer: &'static Writer) {
    writer.stop_drain();
    writer.drain();
}

#[test]
fn a_definition_that_is_too_large_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let writer = Writer::create(
        &folder.path().join("report.bin"),
        &Options::default().ring_slots(64),
    )
    .unwrap();
    assert_eq!(
        writer.definition(DefKind::NOTE, &[&[0; 513]]),
        Err(Lost::TooLarge)
    );
    assert_eq!(
        writer.definition(DefKind(200), &[&[0; 256], &[0; 256]]),
        Ok(Seq(0))
    );
    assert_eq!(writer.event(&alloc(writer, 1)), Ok(Seq(9)));
}
