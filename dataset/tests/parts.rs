//! Groups captures into parts, and reads the parts' files with another Parquet reader.

use std::sync::Arc;

use gpumem_dataset::{
    Capture, CaptureRows, Dataset, Event, Gathered, Gatherer, Held, Key, Line, Patience, Rank,
    SpoolWriter, Store,
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
    Capture {
        rows,
        from: format!("/captures/{number}.bin"),
        events: None,
    }
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

fn part(captures: impl Iterator<Item = Capture>) -> gpumem_dataset::Made {
    let mut gathered = Gathered::new("a run");
    for capture in captures {
        gathered.add(capture).expect("added");
    }
    let by = ("host".into(), 1);
    gathered.make(by, serde_json::Value::Null).expect("made")
}

fn store(folder: &tempfile::TempDir) -> Store {
    let place = folder.path().to_str().expect("UTF-8");
    Store::at(place, Patience::default()).expect("a store")
}

#[test]
fn the_same_captures_give_the_same_part_in_any_order() {
    let first = part((0..50).map(|number| capture("r", number, 20)));
    let again = part((0..50).rev().map(|number| capture("r", number, 20)));
    assert_eq!(first.entry, again.entry);
    assert_eq!(first.entry.run, "a-run");
    assert_eq!(first.entry.node, "node");
    assert_eq!(first.entry.newest, 2_000_049);
    let other = part((0..50).map(|number| capture("r", number, 21)));
    assert_ne!(first.entry.part, other.entry.part);
}

#[test]
fn files_are_sorted_with_statistics_and_small_bloom_filters() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut dataset = Dataset::open(store(&folder)).expect("opened");
    let made = part((0..1000).map(|number| capture("r", number, 200)));
    assert!(dataset.publish(&made).expect("written"));
    dataset.look().expect("listed");
    let found = |table: &str| {
        let mut files = dataset.files().iter();
        files
            .find(|(file, _)| file.table == table)
            .expect("a file")
            .1
    };
    let held = found("held");
    // 200,000 rows: the differences between ranks are small.
    assert!(held.bytes < 300_000, "{}", held.bytes);
    let bytes = bytes::Bytes::from(dataset.store().get(&held.path).expect("read"));
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
    let lines = bytes::Bytes::from(dataset.store().get(&found("lines").path).expect("read"));
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
        let made = parts.into_iter().map(|part| {
            part.make(("h".into(), 1), serde_json::Value::Null)
                .expect("made")
        });
        made.map(|made| {
            made.entry
                .captures
                .iter()
                .map(|source| source.capture)
                .collect()
        })
        .collect()
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
    let mut dataset = Dataset::open(store(&folder)).expect("opened");
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
    // Through a staged file.
    let staged = (0..4).map(|number| {
        let mut file = Vec::new();
        with_events(number).write(&mut file).expect("written");
        Capture::read(&file[..])
            .expect("read")
            .expect("of this version")
    });
    assert!(dataset.publish(&part(staged)).expect("written"));
    let direct = part((0..4).map(with_events));
    dataset.look().expect("listed");
    let file = direct.entry.file("events");
    let found = dataset
        .files()
        .get(&file)
        .expect("the same name, so the same bytes");
    let bytes = bytes::Bytes::from(dataset.store().get(&found.path).expect("read"));
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
fn who_comes_second_writes_nothing_and_a_part_given_up_is_free() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut first = Dataset::open(store(&folder)).expect("opened");
    let mut second = Dataset::open(store(&folder)).expect("opened");
    let made = part((0..3).map(|number| capture("r", number, 2)));
    assert!(first.publish(&made).expect("written"));
    let overlapping = part((2..5).map(|number| capture("other", number, 2)));
    assert!(!second.publish(&overlapping).expect("refused"));
    second.look().expect("listed");
    assert_eq!(second.parts().len(), 1);
    assert!(second.knows(capture("r", 2, 2).rows.rank.capture));
    assert!(!second.knows(capture("r", 4, 2).rows.rank.capture));
    second.release(1).expect("released");
    assert!(second.files().is_empty());
    assert!(second.publish(&overlapping).expect("written"));
    // The first one completes a part that was released meanwhile: it removes its files again.
    first.complete(1, &made).expect("refused");
    first.look().expect("listed");
    let ranks = first.files().keys().filter(|file| file.table == "ranks");
    assert_eq!(
        ranks.map(|file| &*file.part).collect::<Vec<_>>(),
        [overlapping.entry.part]
    );
}

#[test]
fn captures_of_files_that_the_list_lacks_are_known_by_their_ranks() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut dataset = Dataset::open(store(&folder)).expect("opened");
    let made = part((0..3).map(|number| capture("r", number, 2)));
    assert!(dataset.publish(&made).expect("written"));
    std::fs::remove_dir_all(folder.path().join("_parts")).expect("removed");
    let dataset = Dataset::open(store(&folder)).expect("opened");
    assert!(dataset.parts().is_empty());
    assert!(dataset.knows(capture("r", 2, 2).rows.rank.capture));
    assert!(!dataset.knows(capture("r", 3, 2).rows.rank.capture));
}
