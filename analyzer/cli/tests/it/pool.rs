//! PyTorch's pool in the ledger.

use gpumem_capture::{Event, EventFlags, EventKind, Level, StackId};
use serde_json::json;
use tempfile::tempdir;

use crate::golden::{golden, masked};
use crate::ledger::{C10, CUBLAS, ledger, of_kind};
use crate::run::{analyze, stdout};
use crate::synthetic::{M, Synthetic};

const NONE: EventFlags = EventFlags::NONE;
const VMM: EventFlags = EventFlags::VMM_HANDLE;

#[test]
fn expandable_segments_are_counted_once_and_given_back_in_pieces() {
    let folder = tempdir().expect("a folder");
    let mut capture = Synthetic::new(folder.path());
    let (a, b) = (
        capture.python(&[("a.py", "f", 1, true)]),
        capture.python(&[("a.py", "g", 2, true)]),
    );
    let base = 0x7000_0000;
    capture.event(Event {
        kind: EventKind::ADDRESS,
        ptr: base,
        bytes: 1 << 30,
        ..Event::default()
    });
    for index in 0..4 {
        let (handle, address) = (0x10 + index, base + index * 20 * M);
        capture.asked(handle, 20 * M, VMM, C10, a);
        capture.given(handle, 20 * M, VMM);
        capture.event(Event {
            kind: EventKind::MAP,
            level: Level::DRIVER,
            ptr: address,
            bytes: 20 * M,
            aux: handle,
            ..Event::default()
        });
    }
    // One handle of NCCL, mapped far away.
    capture.asked(0x99, 2 * M, VMM, CUBLAS, b);
    capture.given(0x99, 2 * M, VMM);
    capture.tensor(base, 10 * M, 80 * M, a, StackId::NONE);
    capture.tensor(base + 10 * M, 15 * M, 80 * M, b, StackId::NONE);
    capture.tensor(base + 60 * M, 5 * M, 80 * M, b, StackId::NONE);
    capture.sample(82 * M, 0, 82 * M, NONE);
    capture.card(82 * M, 0);
    let file = capture.finish();
    let found = ledger(&[], &file);
    assert_eq!(found["bytes"], 82 * M);
    assert_eq!(found["unexplained_bytes"], 0);
    assert_eq!(
        (of_kind(&found, "tensors"), of_kind(&found, "cached")),
        (30, 50)
    );
    assert_eq!(
        (of_kind(&found, "library"), of_kind(&found, "rounding")),
        (2, 0)
    );
    let pool = &found["pool"];
    assert_eq!(pool["reserved_bytes"], 80 * M);
    assert_eq!(pool["largest_free_block_bytes"], 35 * M);
    assert_eq!(
        pool["reclaimable_bytes"],
        20 * M,
        "the third handle has no tensor in it"
    );
    let segments = pool["segments"].as_array().expect("segments");
    assert_eq!(segments.len(), 1, "{segments:?}");
    let segment = &segments[0];
    assert_eq!(
        (&segment["bytes"], &segment["expandable"]),
        (&json!(80 * M), &json!(true))
    );
    assert_eq!(segment["pinned_bytes"], 60 * M);
    let lines = pool["lines"].as_array().expect("lines");
    let given: Vec<_> = lines
        .iter()
        .map(|line| (line["line"].as_u64(), line["given_back_bytes"].as_u64()))
        .collect();
    // The first handle has tensors of both lines, the second and fourth only of line 2.
    assert_eq!(given, [(Some(2), Some(40 * M)), (Some(1), Some(0))]);
    let text = stdout(&analyze(&[], &file));
    assert!(text.contains("agrees with NVML to the byte"), "{text}");
}

#[test]
fn plain_segments_are_given_back_whole() {
    let folder = tempdir().expect("a folder");
    let mut capture = Synthetic::new(folder.path());
    let (a, b) = (
        capture.python(&[("a.py", "f", 1, true)]),
        capture.python(&[("a.py", "g", 2, true)]),
    );
    for (ptr, bytes) in [
        (0x1000_0000, 20 * M),
        (0x2000_0000, 20 * M),
        (0x3000_0000, 2 * M),
    ] {
        capture.asked(ptr, bytes, NONE, C10, a);
    }
    capture.tensor(0x1000_0000, M, 42 * M, a, StackId::NONE);
    capture.tensor(0x1000_0000 + 5 * M, M, 42 * M, b, StackId::NONE);
    capture.tensor(0x2000_0000, 4 * M, 42 * M, b, StackId::NONE);
    let file = capture.finish();
    let found = ledger(&[], &file);
    let pool = &found["pool"];
    let lines: Vec<_> = pool["lines"].as_array().expect("lines").iter().collect();
    assert_eq!(
        (
            &lines[0]["line"],
            &lines[0]["given_back_bytes"],
            &lines[0]["segments"]
        ),
        (&json!(2), &json!(20 * M), &json!(2))
    );
    assert_eq!(lines[1]["given_back_bytes"], 0);
    assert_eq!(pool["reclaimable_bytes"], 2 * M);
    assert_eq!(pool["largest_free_block_bytes"], 16 * M);
    let pinned: Vec<_> = pool["segments"]
        .as_array()
        .expect("segments")
        .iter()
        .map(|segment| {
            (
                segment["address"].as_u64(),
                segment["pinned_bytes"].as_u64(),
            )
        })
        .collect();
    assert_eq!(
        pinned,
        [
            (Some(0x1000_0000), Some(20 * M)),
            (Some(0x2000_0000), Some(20 * M)),
            (Some(0x3000_0000), Some(0))
        ]
    );
    golden(
        "segments.txt",
        &masked(
            &stdout(&analyze(&["ledger", "--segments"], &file)),
            folder.path(),
        ),
    );
}

#[test]
fn without_stacks_the_pool_is_found_by_its_tensors() {
    let folder = tempdir().expect("a folder");
    let mut capture = Synthetic::new(folder.path());
    capture.asked(0x1000_0000, 20 * M, NONE, 0, StackId::NONE);
    capture.asked(0x2000_0000, 8 * M, NONE, 0, StackId::NONE);
    capture.tensor(0x1000_0000, 5 * M, 20 * M, StackId::NONE, StackId::NONE);
    let file = capture.finish();
    let found = ledger(&[], &file);
    assert_eq!(
        (of_kind(&found, "tensors"), of_kind(&found, "cached")),
        (5, 15)
    );
    assert_eq!(of_kind(&found, "library"), 8);
    assert_eq!(found["pool"]["segments"][0]["bytes"], 20 * M);
}
