//! Groups captures into parts, and reads the parts' files with another Parquet reader.
#![allow(clippy::disallowed_methods)]

use std::sync::Arc;

use gpumem_dataset::{
    Capture, CaptureRows, DataFile, Dataset, Event, Gathered, Gatherer, Held, Key, Line, Made,
    Rank, SpoolWriter,
};
use parquet::file::reader::{FileReader as _, SerializedFileReader};
use parquet::file::serialized_reader::ReadOptionsBuilder;

/// A capture of a run with lines that all captures share.
fn capture(run: &str, number: i64, lines: i64) -> Capture {
    let key = Key(number.wrapping_mul(0x9e37_79b9_7f4a_7c15_u64.cast_signed()));
    let text = |text: &str| -> Arc<str> { text.into() };
    let rank = Rank {
        capture: key,
        schema: 1,
        file: text(&format!("/captures/{number}.bin")),
        host: Some(text("node")),
        pid: number,
        rank: Some(number),
        world_size: None,
        local_rank: None,
        node_rank: None,
        restarts: None,
        job: None,
        coordinates: None,
        peers: text(""),
        program: None,
        version: text("1"),
        device: Some(0),
        uuid: None,
        gpu: None,
        card_bytes: None,
        started: 1_000_000,
        ended: 2_000_000 + number,
        ending: text("clean"),
        wanted_bytes: None,
        tensor_peak_bytes: 1,
        reserved_peak_bytes: 2,
        process_peak_bytes: 3,
        unexplained_bytes: None,
        steps: 0,
        events: 0,
        exact: true,
        missing: None,
        pytorch: None,
        python: None,
        driver: None,
        recorder: None,
        allocator: None,
        allocator_settings: None,
    };
    let line_key = |line: i64| Key(line.wrapping_mul(0x517c_c1b7_2722_0a95));
    let held = (0..lines).map(|line| Held {
        capture: key,
        device: 0,
        moment: text("peak"),
        level: text("tensor"),
        category: (line % 2 == 0).then(|| text("activation")),
        line_key: line_key(line),
        module: None,
        stack_key: None,
        bytes: 512 * line + number % 3,
        blocks: 1,
    });
    let lines_of = (0..lines).map(|line| Line {
        line_key: line_key(line),
        label: text(&format!("train.py:{line}")),
        file: Some(text("train.py")),
        line: Some(line),
        function: None,
        text: None,
        node: None,
        library: None,
    });
    let rows = CaptureRows {
        run: run.into(),
        rank,
        labels: Vec::new(),
        held: held.collect(),
        lines: lines_of.collect(),
        frames: Vec::new(),
        ledger: Vec::new(),
        series: Vec::new(),
        steps: Vec::new(),
        failures: Vec::new(),
    };
    Capture { rows, events: None }
}

fn event(capture: Key, seq: i64) -> Event {
    Event {
        capture,
        seq,
        time: seq,
        kind: "alloc".into(),
        level: None,
        device: None,
        ptr: seq,
        bytes: 1,
        live_bytes: None,
        block_seq: None,
        line_key: None,
        step: None,
        category: None,
    }
}

fn part(captures: impl Iterator<Item = Capture>) -> Made {
    let mut gathered = Gathered::new("a run");
    for capture in captures {
        gathered.add(capture).expect("added");
    }
    gathered.make().expect("made")
}

fn open(folder: &tempfile::TempDir) -> Dataset {
    Dataset::open(folder.path()).expect("opened")
}

/// The contents of a part's file.
fn file(folder: &tempfile::TempDir, made: &Made, table: &'static str) -> Vec<u8> {
    let of = made.name.clone();
    std::fs::read(folder.path().join(DataFile { of, table }.path())).expect("read")
}

#[test]
fn the_same_captures_give_the_same_part_in_any_order() {
    let first = part((0..50).map(|number| capture("r", number, 20)));
    let again = part((0..50).rev().map(|number| capture("r", number, 20)));
    assert_eq!(first.name, again.name);
    assert_eq!(first.captures, again.captures);
    assert_eq!(first.name.run, "a-run");
    assert_eq!(first.name.node, "node");
    assert_eq!(first.newest, 2_000_049);
    let other = part((0..50).map(|number| capture("r", number, 21)));
    assert_ne!(first.name.part, other.name.part);
}

#[test]
fn files_are_sorted_with_statistics_and_small_bloom_filters() {
    let folder = tempfile::tempdir().expect("a folder");
    let made = part((0..1000).map(|number| capture("r", number, 200)));
    assert!(open(&folder).publish(&made).expect("written"));
    let held = file(&folder, &made, "held");
    // 200,000 rows: the differences between ranks are small.
    assert!(held.len() < 300_000, "{}", held.len());
    let bytes = bytes::Bytes::from(held);
    let options = ReadOptionsBuilder::new().with_page_index().build();
    let reader = SerializedFileReader::new_with_options(bytes, options).expect("Parquet");
    let metadata = reader.metadata();
    assert_eq!(metadata.num_row_groups(), 2);
    assert_eq!(metadata.row_group(0).num_rows(), 122_880);
    let columns = metadata.file_metadata().schema_descr();
    let sorted: Vec<_> = metadata
        .row_group(0)
        .sorting_columns()
        .expect("sorted")
        .iter()
        .map(|by| {
            assert!(!by.descending && by.nulls_first);
            columns.column(by.column_idx as usize).name().to_owned()
        })
        .collect();
    assert_eq!(
        sorted,
        [
            "line_key", "module", "category", "level", "moment", "capture"
        ]
    );
    for chunk in metadata.row_group(0).columns() {
        let is_key = ["capture", "line_key", "stack_key"].contains(&chunk.column_descr().name());
        assert_eq!(chunk.bloom_filter_offset().is_some(), is_key);
        // A false-positive rate of 1 % takes some 10 bits for each of 1,000 keys, rounded up to a
        // power of two.
        assert!(chunk.bloom_filter_length().unwrap_or(0) < 2200, "{chunk:?}");
        assert!(chunk.column_index_offset().is_some());
    }
    // The lines are the same in all captures, and are stored once.
    let lines = bytes::Bytes::from(file(&folder, &made, "lines"));
    let lines = SerializedFileReader::new(lines).expect("Parquet");
    assert_eq!(lines.metadata().file_metadata().num_rows(), 200);
}

#[test]
fn a_part_is_full_at_so_many_captures_or_rows() {
    let cut = |mut gatherer: Gatherer, captures: &mut dyn Iterator<Item = Capture>| -> Vec<usize> {
        let mut parts = Vec::new();
        for capture in captures {
            parts.extend(gatherer.add(capture).expect("added"));
        }
        parts.extend(gatherer.finish());
        parts.iter().map(Gathered::captures).collect()
    };
    let small = &mut (0..2050).map(|number| capture("r", number, 1));
    assert_eq!(cut(Gatherer::default(), small), [1024, 1024, 2]);
    let large = &mut (0..13).map(|number| capture("r", number, 100));
    // 9 captures have 900 rows in held, 100 in lines and 9 in ranks.
    assert_eq!(cut(Gatherer::bounded(1024, 1000), large), [9, 4]);
    let many_runs = &mut (0..30).map(|number| capture(&format!("run{}", number % 3), number, 50));
    let parts = cut(Gatherer::bounded(1024, 1000), many_runs);
    assert_eq!(parts.iter().sum::<usize>(), 30);
    assert!(parts.len() > 3 && parts.len() < 10, "{parts:?}");
}

#[test]
fn what_is_left_after_some_parts_falls_into_the_same_parts() {
    let captures = |number: i64| capture(&format!("run{}", number % 3), number, 40 + number % 7);
    let cut = |numbers: &[i64]| -> Vec<Vec<Key>> {
        let mut gatherer = Gatherer::bounded(1024, 1000);
        let mut parts = Vec::new();
        for number in numbers {
            parts.extend(gatherer.add(captures(*number)).expect("added"));
        }
        parts.extend(gatherer.finish());
        let made = parts.into_iter().map(|part| part.make().expect("made"));
        made.map(|made| made.captures).collect()
    };
    let all: Vec<i64> = (0..48).collect();
    let parts = cut(&all);
    assert!(parts.len() > 4);
    for done in 1..parts.len() {
        let written: Vec<Key> = parts[..done].concat();
        let is_left = |number: &&i64| !written.contains(&captures(**number).rows.rank.capture);
        let left: Vec<i64> = all.iter().filter(is_left).copied().collect();
        assert_eq!(cut(&left), parts[done..], "{done}");
    }
}

#[test]
fn events_stand_by_capture_and_in_their_order() {
    let folder = tempfile::tempdir().expect("a folder");
    let with_events = |number: i64| {
        let mut capture = capture("r", number, 1);
        let mut spool = SpoolWriter::new().expect("a spool");
        for seq in 0..31_000 {
            spool
                .push(&event(capture.rows.rank.capture, seq))
                .expect("written");
        }
        capture.events = Some(spool.finish().expect("written"));
        capture
    };
    let made = part((0..4).map(with_events));
    assert_eq!(made.name, part((0..4).rev().map(with_events)).name);
    assert!(open(&folder).publish(&made).expect("written"));
    let bytes = bytes::Bytes::from(file(&folder, &made, "events"));
    let reader = SerializedFileReader::new(bytes).expect("Parquet");
    assert_eq!(reader.metadata().num_row_groups(), 2);
    let rows = reader.get_row_iter(None).expect("rows").map(|row| {
        use parquet::record::RowAccessor as _;
        let row = row.expect("a row");
        (
            row.get_long(0).expect("capture"),
            row.get_long(1).expect("seq"),
        )
    });
    let rows: Vec<_> = rows.collect();
    assert_eq!(rows.len(), 124_000);
    assert!(rows.is_sorted());
}

#[test]
fn who_comes_second_writes_nothing() {
    let folder = tempfile::tempdir().expect("a folder");
    let (mut first, mut second) = (open(&folder), open(&folder));
    let made = part((0..3).map(|number| capture("r", number, 2)));
    assert!(first.publish(&made).expect("written"));
    let overlapping = part((2..5).map(|number| capture("other", number, 2)));
    assert!(!second.publish(&overlapping).expect("refused"));
    assert_eq!(Vec::from_iter(second.parts().keys()), [&made.name]);
    assert!(second.has(capture("r", 2, 2).rows.rank.capture));
    assert!(!second.has(capture("r", 4, 2).rows.rank.capture));
    second.prune(&made.name, &[]).expect("removed");
    assert!(first.publish(&overlapping).expect("written"));
    let dataset = open(&folder);
    let found = dataset.parts().get(&overlapping.name).expect("a part");
    assert_eq!(found.newest, 2_000_004);
    // In the order of ranks.
    assert_eq!(
        found.captures,
        [2, 3, 4].map(|number| capture("", number, 0).rows.rank.capture)
    );
    assert_eq!(dataset.parts().len(), 1);
}

#[test]
fn files_without_ranks_and_those_of_a_killed_writer_are_removed() {
    let folder = tempfile::tempdir().expect("a folder");
    let (made, other) = [0..3, 3..5]
        .map(|of| part(of.map(|number| capture("r", number, 2))))
        .into();
    for made in [&made, &other] {
        assert!(open(&folder).publish(made).expect("written"));
    }
    let path = |made: &Made, table| {
        let of = made.name.clone();
        folder.path().join(DataFile { of, table }.path())
    };
    std::fs::remove_file(path(&made, "ranks")).expect("removed");
    let half = path(&other, "held").with_file_name("_x.parquet.tmp");
    std::fs::write(&half, b"half").expect("written");
    assert_eq!(Dataset::read(folder.path()).expect("read").parts().len(), 1);
    assert!(half.exists() && path(&made, "held").exists());
    let mut dataset = open(&folder);
    assert_eq!(Vec::from_iter(dataset.parts().keys()), [&other.name]);
    assert!(!half.exists() && !path(&made, "held").exists());
    dataset.prune(&other.name, &["held"]).expect("removed");
    assert!(!path(&other, "held").exists() && path(&other, "ranks").exists());
    assert!(dataset.has(other.captures[0]));
}
