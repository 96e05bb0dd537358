//! The streams, pools, releases and calls that an import writes for replays of a trace.

use std::path::Path;

use gpumem_analyzer::pickle::PickleWriter;
use gpumem_capture::{
    AllocatorCall, Definition, Event, EventKind, Level, PlacementId, Reader, Record,
};
use serde_json::json;
use tempfile::tempdir;

use super::imported;
use super::snapshots::{At, FORWARD, TRAIN, frames, number, text};
use crate::run::json_of;

const CALL: At = (
    "/env/lib/python3.12/site-packages/torch/cuda/memory.py",
    "empty_cache",
    225,
);
const GRAPH: (u64, u64) = (3, 0);
const POOL: (u64, u64) = (0, 1);
const NONE: (u64, u64) = (0, 0);

/// An entry: action, address, bytes, stream, pool, frames.
type Entry<'a> = (&'a str, u64, u64, u64, (u64, u64), &'a [At]);

/// The pickle of a snapshot without segments.
fn pickle(entries: &[Entry<'_>], conf: &str, expandable: bool) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut writer = PickleWriter::new(&mut bytes).expect("memory");
    let to = &mut writer;
    to.begin_dict().expect("memory");
    to.word("segments").expect("memory");
    let list = to.begin_list().expect("memory");
    to.end_list(list).expect("memory");
    to.word("device_traces").expect("memory");
    let mut devices = to.begin_list().expect("memory");
    to.item(&mut devices).expect("memory");
    let mut list = to.begin_list().expect("memory");
    for (action, address, bytes, stream, pool, stack) in entries {
        to.item(&mut list).expect("memory");
        to.begin_dict().expect("memory");
        text(to, "action", action);
        let key = if *action == "oom" {
            "device_free"
        } else {
            "addr"
        };
        number(to, key, *address);
        number(to, "size", *bytes);
        number(to, "stream", *stream);
        to.word("pool_id").expect("memory");
        to.pair(pool.0, pool.1).expect("memory");
        to.word("frames").expect("memory");
        frames(to, stack);
        to.end_dict().expect("memory");
    }
    to.end_list(list).expect("memory");
    to.end_list(devices).expect("memory");
    to.word("allocator_settings").expect("memory");
    to.begin_dict().expect("memory");
    text(to, "PYTORCH_CUDA_ALLOC_CONF", conf);
    to.word("expandable_segments").expect("memory");
    to.bool(expandable).expect("memory");
    to.end_dict().expect("memory");
    to.end_dict().expect("memory");
    writer.finish().expect("memory");
    bytes
}

/// The steps of a replay of a capture: one line for each event of the tensor level.
fn steps(capture: &Path) -> Vec<String> {
    let mut places = vec![(0, NONE); 256];
    let mut lines = Vec::new();
    let mut reader = Reader::open(capture).expect("a capture");
    let mut see = |record: Record<'_>| match record {
        Record::Definition(
            _,
            Definition::Placement {
                id, stream, pool, ..
            },
        ) => places[usize::from(id.0)] = (*stream, *pool),
        Record::Event(_, event) if event.level == Level::TENSOR => {
            lines.push(step(event, &places));
        }
        _ => {}
    };
    reader.read(&mut see).expect("a capture");
    lines
}

fn step(event: &Event, places: &[(u64, (u64, u64))]) -> String {
    let (stream, (a, b)) = places[usize::from(event.placement.0)];
    let ptr = event.ptr;
    match event.kind {
        EventKind::ALLOC => {
            assert_ne!(event.placement, PlacementId::UNKNOWN);
            assert_eq!(event.slack, 0);
            format!("alloc {ptr} of {} on {stream} in {a}.{b}", event.bytes)
        }
        EventKind::FREE => format!("free {ptr}"),
        EventKind::OUT_OF_MEMORY => format!("no {} on {stream} in {a}.{b}", event.bytes),
        EventKind::ALLOCATOR => match AllocatorCall(event.aux) {
            AllocatorCall::RELEASED => format!("released {ptr}"),
            AllocatorCall::RECORD_STREAM => format!("use {ptr} on {stream}"),
            AllocatorCall::EMPTY_CACHE => format!("empty {a}.{b}"),
            AllocatorCall::POOL_BEGIN => format!("begin {a}.{b}"),
            AllocatorCall::POOL_END => format!("end {a}.{b}"),
            AllocatorCall::POOL_RELEASE => format!("give up {a}.{b}"),
            AllocatorCall::CAPTURE_BEGIN => "capture".to_owned(),
            AllocatorCall::CAPTURE_END => "captured".to_owned(),
            other => format!("{other:?}"),
        },
        other => format!("{other:?}"),
    }
}

fn imported_steps(entries: &[Entry<'_>]) -> (Vec<String>, serde_json::Value) {
    let folder = tempdir().expect("a folder");
    let (file, said, code) = imported(folder.path(), &pickle(entries, "", false));
    assert_eq!(code, Some(0), "{said}");
    let (summary, _) = json_of(&["report", "--all", "--format", "json"], &file);
    (steps(&file), summary)
}

#[test]
fn blocks_have_their_streams_and_go_back_when_they_did() {
    let (steps, summary) = imported_steps(&[
        ("segment_alloc", 1 << 20, 1 << 21, 0, NONE, &[TRAIN]),
        ("alloc", 1 << 20, 700, 0, NONE, &[TRAIN]),
        ("segment_alloc", 1 << 22, 1 << 21, 9, NONE, &[TRAIN]),
        ("alloc", 1 << 22, 800, 9, NONE, &[TRAIN]),
        ("free_requested", 1 << 20, 700, 0, NONE, &[]),
        ("free_requested", 1 << 22, 800, 9, NONE, &[]),
        ("free_completed", 1 << 22, 800, 9, NONE, &[]),
        ("free_completed", 1 << 20, 700, 0, NONE, &[]),
        ("segment_free", 1 << 20, 1 << 21, 0, NONE, &[CALL, TRAIN]),
        ("segment_free", 1 << 22, 1 << 21, 9, NONE, &[CALL, TRAIN]),
    ]);
    let (a, b) = (1 << 20, 1 << 22);
    assert_eq!(
        steps,
        [
            format!("alloc {a} of 700 on 0 in 0.0"),
            format!("alloc {b} of 800 on 9 in 0.0"),
            format!("use {a} on 9"),
            format!("free {a}"),
            format!("free {b}"),
            format!("released {a}"),
            "empty 0.0".to_owned(),
        ]
    );
    let pytorch = &summary["process"]["pytorch"];
    assert_eq!(
        pytorch["allocator_seen"],
        json!(["requested", "stream", "released", "pool"])
    );
    let unknown = pytorch["allocator_unknown"].to_string();
    assert!(unknown.contains("on which streams of GPU 0 1 block was used"));
}

#[test]
fn private_pools_are_begun_ended_and_given_up() {
    let at = |n: u64| n << 24;
    let (steps, summary) = imported_steps(&[
        ("segment_alloc", at(1), 1 << 21, 5, GRAPH, &[FORWARD]),
        ("alloc", at(1), 1000, 5, GRAPH, &[FORWARD]),
        ("alloc", at(1) + 1024, 1000, 5, GRAPH, &[FORWARD]),
        ("segment_alloc", at(2), 1 << 21, 0, POOL, &[FORWARD]),
        ("alloc", at(2), 1000, 0, POOL, &[FORWARD]),
        ("segment_alloc", at(3), 1 << 21, 0, NONE, &[FORWARD]),
        ("alloc", at(3), 1000, 0, NONE, &[FORWARD]),
        ("free_requested", at(2), 1000, 0, POOL, &[TRAIN]),
        ("free_completed", at(2), 1000, 0, POOL, &[TRAIN]),
        ("segment_free", at(2), 1 << 21, 0, POOL, &[TRAIN]),
        ("free_requested", at(3), 1000, 0, NONE, &[TRAIN]),
        ("free_completed", at(3), 1000, 0, NONE, &[TRAIN]),
        ("free_requested", at(1), 1000, 5, GRAPH, &[TRAIN]),
        ("free_completed", at(1), 1000, 5, GRAPH, &[TRAIN]),
        ("free_requested", at(1) + 1024, 1000, 5, GRAPH, &[TRAIN]),
        ("free_completed", at(1) + 1024, 1000, 5, GRAPH, &[TRAIN]),
        ("segment_free", at(3), 1 << 21, 0, NONE, &[CALL, TRAIN]),
        ("segment_free", at(1), 1 << 21, 5, GRAPH, &[CALL, TRAIN]),
    ]);
    let calls: Vec<_> = steps
        .iter()
        .filter(|step| !step.starts_with("free"))
        .map(|step| step.split(" of ").next().unwrap_or_default())
        .collect();
    let alloc = |address: u64| format!("alloc {address}");
    assert_eq!(
        calls,
        [
            "begin 3.0",
            "capture",
            &alloc(at(1)),
            &alloc(at(1) + 1024),
            "captured",
            "end 3.0",
            "begin 0.1",
            &alloc(at(2)),
            "end 0.1",
            &alloc(at(3)),
            "give up 0.1",
            "empty 0.1",
            "give up 3.0",
            "empty 0.0",
        ]
    );
    let unknown = summary["process"]["pytorch"]["allocator_unknown"].to_string();
    assert!(unknown.contains("when the use of 2 private pools of GPU 0 began and ended"));
}

#[test]
fn what_pytorch_gives_back_for_an_allocation_is_no_call() {
    let retry = |stack: &'static [At]| {
        imported_steps(&[
            ("segment_alloc", 1 << 20, 1 << 21, 0, NONE, &[TRAIN]),
            ("alloc", 1 << 20, 1000, 0, NONE, &[TRAIN]),
            ("free_requested", 1 << 20, 1000, 0, NONE, &[]),
            ("free_completed", 1 << 20, 1000, 0, NONE, &[]),
            ("segment_free", 1 << 20, 1 << 21, 0, NONE, stack),
            ("segment_alloc", 1 << 22, 1 << 21, 0, NONE, &[FORWARD]),
            ("alloc", 1 << 22, 1000, 0, NONE, &[FORWARD]),
            ("free_requested", 1 << 22, 1000, 0, NONE, &[]),
            ("free_completed", 1 << 22, 1000, 0, NONE, &[]),
            ("segment_free", 1 << 22, 1 << 21, 0, NONE, &[FORWARD]),
            ("oom", 5 << 20, 8 << 20, 0, NONE, &[FORWARD]),
        ])
    };
    let (steps, summary) = retry(&[FORWARD]);
    assert!(!steps.iter().any(|step| step.starts_with("empty")));
    assert_eq!(
        steps.last().map(String::as_str),
        Some("no 8388608 on 0 in 0.0")
    );
    assert_eq!(summary["devices"][0]["allocator_room_bytes"], 5 << 20);
    // If the segment was freed with another stack than that of the allocation, the program emptied
    // the cache.
    let (steps, _) = retry(&[TRAIN]);
    assert_eq!(steps.iter().filter(|step| *step == "empty 0.0").count(), 1);
}

#[test]
fn settings_that_were_given_before_the_last_are_in_force() {
    let folder = tempdir().expect("a folder");
    let entries: &[Entry<'_>] = &[("segment_alloc", 1 << 20, 1 << 21, 0, NONE, &[])];
    let conf = "max_split_size_mb:33";
    for (expandable, settings) in [
        (false, conf.to_owned()),
        (true, format!("{conf},expandable_segments:True")),
    ] {
        let (file, ..) = imported(folder.path(), &pickle(entries, conf, expandable));
        let (summary, _) = json_of(&["report", "--all", "--format", "json"], &file);
        let pytorch = &summary["process"]["pytorch"];
        assert_eq!(pytorch["allocator_settings"], json!(settings));
        let unknown = pytorch["allocator_unknown"].to_string();
        assert_eq!(
            unknown.contains("when its final settings took effect"),
            expandable
        );
    }
}
