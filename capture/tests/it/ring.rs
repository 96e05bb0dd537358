//! Records that are written without a drain are read from the ring.

use gpumem_capture::*;

use crate::support::*;

#[test]
fn records_in_the_ring_are_read_in_order() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("report.bin");
    let writer = Writer::create(&path, &Options::default()).unwrap();
    let stack = Definition::NativeStack {
        id: StackId(1),
        truncated: false,
        frames: (0..50).map(|n| n << 12).collect(),
    };
    let payload = stack.payload();
    let (first, rest) = payload.split_at(13);
    assert_eq!(
        writer.definition(DefKind::NATIVE_STACK, &[first, &[], rest]),
        Ok(Seq(0))
    );
    let alloc = Event {
        time: writer.now(),
        ptr: 0x7f00_0000_0000,
        bytes: 512,
        kind: EventKind::ALLOC,
        level: Level::DRIVER,
        native_stack: StackId(1),
        ..Event::default()
    };
    let free = Event {
        kind: EventKind::FREE,
        ..alloc
    };
    let next = Seq(1 + payload.len().div_ceil(64) as u64);
    assert_eq!(writer.event(&alloc), Ok(next));
    assert_eq!(writer.event(&free), Ok(Seq(next.0 + 1)));
    writer.finish();

    let mut reader = Reader::open(&path).unwrap();
    assert_eq!(reader.header().pid, std::process::id());
    assert!(reader.header().is_running());
    assert!(reader.header().ended.is_some());
    let expected = CounterValues {
        live: 0,
        peak: 512,
        allocations: 1,
        frees: 1,
        allocated_bytes: 512,
    };
    assert_eq!(writer.counters(DeviceOrdinal(0), Level::DRIVER), expected);
    let counters = reader.counters();
    assert_eq!(counters.of, Some(Seq(next.0 + 2)));
    assert_eq!(counters.rows, [(DeviceOrdinal(0), Level::DRIVER, expected)]);
    let mut seen = Vec::new();
    let integrity = reader
        .read(&mut |record| seen.push(format!("{record:?}")))
        .unwrap();
    let wanted = [
        Record::Definition(Seq(0), &stack),
        Record::Event(next, &alloc),
        Record::Event(Seq(next.0 + 1), &free),
    ];
    assert_eq!(seen, wanted.map(|record| format!("{record:?}")));
    assert!(
        integrity.is_whole() && integrity.clean_exit,
        "{integrity:?}"
    );
    assert_eq!(
        (integrity.events, integrity.definitions, integrity.in_flight),
        (2, 1, 0)
    );
}

/// Threads may continue after a clean exit, and be interrupted between two instructions when the process
/// ends. Records that had been committed by the exit cannot be blank.
#[test]
fn a_blank_record_after_the_clean_exit_is_unfinished_and_before_it_is_lost() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("report.bin");
    let writer = Writer::create(&path, &Options::default().ring_slots(64)).unwrap();
    let event = Event {
        kind: EventKind::MAP,
        ..Event::default()
    };
    let sequences: Vec<_> = (0..3).map(|_| writer.event(&event).unwrap()).collect();
    writer.finish();
    let later: Vec<_> = (0..3).map(|_| writer.event(&event).unwrap()).collect();
    let whole = std::fs::read(&path).unwrap();
    for (blank, is_damage) in [(sequences[1], true), (later[1], false)] {
        let mut bytes = whole.clone();
        let slot = 24_576 + 64 * blank.0 as usize;
        bytes[slot..slot + 64].fill(0);
        std::fs::write(&path, bytes).unwrap();
        let (records, integrity) = read(&path);
        let in_flight = u64::from(!is_damage);
        assert_eq!((records.len(), integrity.in_flight), (5, in_flight));
        assert_eq!(!integrity.damage.is_empty(), is_damage, "{integrity:?}");
        assert!(integrity.clean_exit);
    }
}
