//! Memory that stays live from step to step, on captures with known bytes.

use std::path::{Path, PathBuf};

use gpumem_capture::{
    CodeId, Definition, DeviceOrdinal, Event, EventFlags, EventKind, Level, PyFrame, StackId,
};
use serde_json::{Value, json};
use tempfile::tempdir;

use crate::golden::{golden, masked};
use crate::run::{analyze, json_of, stderr, stdout};
use crate::synthetic::{M, Synthetic};
use crate::training::training;

const TRAIN: &str = "/home/me/run/train.py";

fn tensor(capture: &mut Synthetic, ptr: u64, bytes: u64, flags: EventFlags, py_stack: StackId) {
    capture.event(Event {
        kind: EventKind::ALLOC,
        level: Level::TENSOR,
        ptr,
        bytes,
        flags,
        py_stack,
        ..Event::default()
    });
}

/// A training of `steps` steps. Kept are:
///
/// - a model of 12 MiB (line 5)
/// - an optimizer's state of 24 MiB from the first step (line 22)
/// - a workspace of 8 MiB from the second step on (line 16)
/// - a ring buffer of 1 MiB for each of the last five steps (line 30)
/// - 2 MiB more in every step (line 31), and 64 KiB more in every fifth (line 32)
///
/// Each step has an input (line 8) that lives until the next step has its own.
pub fn many_steps(folder: &Path, steps: u64) -> PathBuf {
    let mut capture = Synthetic::new(folder);
    let [load, state, workspace, ring, leak, drip, input] =
        [5, 22, 16, 30, 31, 32, 8].map(|line| capture.python(&[(TRAIN, "train", line, true)]));
    let none = EventFlags::NONE;
    tensor(&mut capture, 0x100, 12 * M, none, load);
    for step in 1..=steps {
        let at = step << 32;
        tensor(&mut capture, at, 3 * M, none, input);
        if step > 1 {
            let before = (step - 1) << 32;
            capture.free_tensor(before, 3 * M, 0, StackId::NONE);
        }
        match step {
            1 => tensor(&mut capture, 0x200, 24 * M, none, state),
            2 => tensor(&mut capture, 0x300, 8 * M, EventFlags::WORKSPACE, workspace),
            _ => {}
        }
        tensor(&mut capture, at + 1, M, none, ring);
        if step > 5 {
            capture.free_tensor(((step - 5) << 32) + 1, M, 0, StackId::NONE);
        }
        tensor(&mut capture, at + 2, 2 * M, none, leak);
        if step % 5 == 0 {
            tensor(&mut capture, at + 3, M / 16, none, drip);
        }
        capture.mark(EventKind::STEP, step);
    }
    capture.finish()
}

fn of_line(leaks: &Value, line: u64) -> Value {
    let rows = leaks["rows"].as_array().expect("rows").iter();
    let mut found = rows.filter(|row| row["line"] == line);
    let row = found
        .next()
        .unwrap_or_else(|| panic!("line {line}: {leaks}"));
    assert!(found.next().is_none());
    row.clone()
}

fn leaks(arguments: &[&str], file: &Path) -> Value {
    let (leaks, exit) = json_of(&[&["leaks", "--format", "json"], arguments].concat(), file);
    assert_eq!(exit, 0, "{leaks}");
    let rows = leaks["rows"].as_array().expect("rows");
    let sum: u64 = rows.iter().map(|row| row["bytes"].as_u64().unwrap()).sum();
    assert_eq!(leaks["bytes"], sum);
    leaks
}

#[test]
fn what_grows_is_told_from_caches_the_warm_up_and_what_is_young() {
    let folder = tempdir().expect("a folder");
    for steps in [30, 200] {
        let file = many_steps(folder.path(), steps);
        let found = leaks(&[], &file);
        assert_eq!(
            (&found["steps"], &found["level"]),
            (&json!(steps), &json!("tensor"))
        );
        let rows = found["rows"].as_array().unwrap().iter();
        let order: Vec<_> = rows.map(|row| row["line"].as_u64().unwrap()).collect();
        assert_eq!(
            order,
            [31, 32, 16, 30, 22, 5, 8],
            "the class, and then the largest"
        );
        let row = of_line(&found, 31);
        assert_eq!(
            row,
            json!({
                "device": 0, "file": TRAIN, "file_relative": "train.py", "line": 31, "function": "train", "class": "growing",
                "bytes": steps * 2 * M, "blocks": steps,
                "survived_bytes": (steps - 2) * 2 * M, "survived_blocks": steps - 2,
                "oldest_step": 1, "newest_step": steps, "bytes_per_step": 2 * M,
                "bytes_per_step_least": 2 * M, "bytes_per_step_most": 2 * M,
            })
        );
        let row = of_line(&found, 32);
        let slope = row["bytes_per_step"].as_i64().unwrap();
        assert_eq!(
            (&row["class"], &row["blocks"]),
            (&json!("growing"), &json!(steps / 5))
        );
        let range = ["bytes_per_step_least", "bytes_per_step_most"].map(|key| row[key].as_i64());
        assert!(range[0] <= Some(slope) && Some(slope) <= range[1]);
        let expected = M as i64 / 16 / 5;
        assert!((slope - expected).abs() < expected / 10, "{slope}");
        for (line, class, bytes) in [
            (16, "cache", 8),
            (30, "cache", 5),
            (5, "warm-up", 12),
            (22, "warm-up", 24),
            (8, "end-only", 3),
        ] {
            let row = of_line(&found, line);
            assert_eq!(
                (&row["class"], &row["bytes"]),
                (&json!(class), &json!(bytes * M)),
                "{line}"
            );
        }
        assert_eq!(of_line(&found, 30)["survived_bytes"], 3 * M);
        assert_eq!(of_line(&found, 22)["bytes_per_step"], 0);
        std::fs::remove_file(&file).expect("removed");
    }
}

#[test]
fn the_table_has_all_of_it() {
    let folder = tempdir().expect("a folder");
    let file = many_steps(folder.path(), 30);
    let output = analyze(&["leaks"], &file);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    golden("leaks.txt", &masked(&stdout(&output), folder.path()));
}

#[test]
fn the_age_and_the_warm_up_can_be_chosen() {
    let folder = tempdir().expect("a folder");
    let file = many_steps(folder.path(), 30);
    let class = |found: &Value, line| of_line(found, line)["class"].as_str().unwrap().to_owned();
    let old = leaks(&["--steps", "6"], &file);
    assert_eq!(
        class(&old, 30),
        "end-only",
        "no block of the ring is so old"
    );
    let old = leaks(&["--steps", "1"], &file);
    assert_eq!(class(&old, 8), "cache", "what lives past one end of a step");
    let warm = leaks(&["--warm-up", "27"], &file);
    assert_eq!(class(&warm, 31), "cache", "too few steps after it");
    let warm = leaks(&["--warm-up", "10"], &file);
    assert_eq!(class(&warm, 31), "growing");
    let part = leaks(&["--size", "..64KiB"], &file);
    assert_eq!(
        (part["rows"].as_array().unwrap().len(), &part["bytes"]),
        (1, &json!(6 * M / 16))
    );
}

#[test]
fn the_moment_can_be_chosen() {
    let folder = tempdir().expect("a folder");
    let file = many_steps(folder.path(), 30);
    for step in [5, 12, 30] {
        let found = leaks(&["--at", &format!("step={step}")], &file);
        let row = of_line(&found, 31);
        assert_eq!(row["bytes"], step * 2 * M);
        assert_eq!(
            (&row["class"], &found["steps"]),
            (&json!("growing"), &json!(step))
        );
    }
    let early = leaks(&["--at", "step=3"], &file);
    assert_eq!(
        of_line(&early, 31)["class"],
        "warm-up",
        "only the first is old"
    );
    let text = stdout(&analyze(&["leaks", "--at", "step=3"], &file));
    assert!(
        text.ends_with("3 steps have ended; growth is reported from 5 steps on.\n"),
        "{text}"
    );
    let output = analyze(&["leaks", "--at", "peak"], &file);
    assert_eq!(output.status.code(), Some(2));
}

#[test]
fn what_a_program_lets_go_of_at_its_end_is_told_at_its_last_step() {
    let folder = tempdir().expect("a folder");
    let mut capture = Synthetic::new(folder.path());
    let line = capture.python(&[(TRAIN, "train", 7, true)]);
    for step in 1..=10 {
        tensor(&mut capture, step, M, EventFlags::NONE, line);
        capture.mark(EventKind::STEP, step);
    }
    for step in 1..=10 {
        capture.free_tensor(step, M, 0, StackId::NONE);
    }
    let file = capture.finish();
    assert_eq!(of_line(&leaks(&[], &file), 7)["class"], "growing");
    assert_eq!(leaks(&["--at", "end"], &file)["rows"], json!([]));
    let text = stdout(&analyze(&["leaks", "--at", "end"], &file));
    assert_eq!(text, "No memory was live at the tensor level at the end.\n");
}

#[test]
fn without_steps_what_is_alive_is_told_and_nothing_made_up() {
    let folder = tempdir().expect("a folder");
    let file = training(folder.path()).finish();
    let found = leaks(&[], &file);
    assert_eq!(
        (&found["steps"], &found["bytes"]),
        (&json!(0), &json!(102 * M))
    );
    assert_eq!(found["rows"][0]["class"], Value::Null);
    let text = stdout(&analyze(&["leaks"], &file));
    assert!(
        text.contains("The capture has no steps, and no loop of the program keeps memory"),
        "{text}"
    );
}

/// A server without steps: for each request, `serve` (line 12) allocates 3 MiB, and `answer` (line 5) a response of 1
/// MiB that is kept. All is freed when it ends.
fn server(folder: &Path, requests: u64) -> PathBuf {
    let mut capture = Synthetic::new(folder);
    for (id, first_line, name) in [(9001, 12, "serve"), (9002, 5, "answer")] {
        capture.define(&Definition::Code {
            id: CodeId(id),
            first_line,
            file: "/home/me/run/serve.py".into(),
            name: name.into(),
            line_table: Vec::new(),
        });
    }
    let frame = |code, offset| PyFrame {
        code: CodeId(code),
        offset,
        entered_from_c: false,
    };
    let (request, response) = (StackId(9003), StackId(9004));
    for (id, frames) in [
        (request, vec![frame(9001, 10)]),
        (response, vec![frame(9002, 4), frame(9001, 20)]),
    ] {
        capture.define(&Definition::PyStack {
            id,
            truncated: false,
            frames,
            modules: Vec::new(),
        });
    }
    let none = EventFlags::NONE;
    for n in 1..=requests {
        tensor(&mut capture, n << 32, 3 * M, none, request);
        tensor(&mut capture, (n << 32) + 1, M, none, response);
        capture.free_tensor(n << 32, 3 * M, 0, StackId::NONE);
    }
    for n in 1..=requests {
        capture.free_tensor((n << 32) + 1, M, 0, StackId::NONE);
    }
    capture.finish()
}

#[test]
fn without_steps_the_rounds_of_a_loop_count() {
    let folder = tempdir().expect("a folder");
    for requests in [3, 6, 20, 400] {
        let file = server(folder.path(), requests);
        let (leaks, ended) = (leaks(&[], &file), requests - 1);
        assert_eq!(leaks["steps"], ended);
        assert_eq!(
            (&leaks["round"]["line"], &leaks["round"]["function"]),
            (&json!(12), &json!("serve"))
        );
        let row = of_line(&leaks, 5);
        assert_eq!(
            (&row["bytes"], &row["blocks"]),
            (&json!(ended * M), &json!(ended))
        );
        assert_eq!(
            (&row["oldest_step"], &row["newest_step"]),
            (&json!(1), &json!(ended))
        );
        let text = stdout(&analyze(&["leaks"], &file));
        let title = format!("Live at the tensor level at the end of round {ended} ");
        assert!(text.starts_with(&title), "{text}");
        let of = "(rounds begin at serve.py:12)";
        let verdict = match requests {
            3 => format!("2 rounds have ended {of}; growth is reported from 5 rounds on.\n"),
            _ => format!("1 line grows by 1.00 MiB per round {of}.\n"),
        };
        assert!(text.ends_with(&verdict), "{text}");
        if requests > 3 {
            assert_eq!(
                (&row["class"], &row["bytes_per_step"]),
                (&json!("growing"), &json!(M))
            );
            let (hints, _) = json_of(&["report", "--hints", "--format", "json"], &file);
            let growing = &hints[0];
            assert_eq!(growing["kind"], "growing", "{hints}");
            let what = growing["what"].as_str().expect("text");
            let rounds =
                format!("after round {ended} than after round 1 {of}: 1.00 MiB more each round");
            assert!(requests > 20 || what.ends_with(&rounds), "{what}");
        }
        let text = stdout(&analyze(&["leaks", "--at", "end"], &file));
        assert_eq!(text, "No memory was live at the tensor level at the end.\n");
        std::fs::remove_file(&file).expect("removed");
    }
}

#[test]
fn frees_that_were_cancelled_leave_blocks_as_old_as_they_were() {
    let folder = tempdir().expect("a folder");
    let mut capture = Synthetic::new(folder.path());
    let line = capture.python(&[(TRAIN, "train", 7, true)]);
    capture.alloc(Level::DRIVER, 0x1000, 4 * M, line, StackId::NONE);
    capture.alloc(Level::DRIVER, 0x2000, 2 * M, line, StackId::NONE);
    for step in 1..=8 {
        let free = capture.freed(Level::DRIVER, 0x1000, 4 * M, EventFlags::NONE);
        capture.event(Event {
            kind: EventKind::CANCEL,
            level: Level::DRIVER,
            ptr: 0x1000,
            bytes: 4 * M,
            aux: free.0,
            ..Event::default()
        });
        capture.mark(EventKind::STEP, step);
    }
    let file = capture.finish();
    let row = of_line(&leaks(&["--level", "driver"], &file), 7);
    assert_eq!(
        (&row["class"], &row["newest_step"]),
        (&json!("warm-up"), &json!(1))
    );
    assert_eq!((&row["bytes"], &row["blocks"]), (&json!(6 * M), &json!(2)));
}

#[test]
fn each_gpu_has_its_own_rows() {
    let folder = tempdir().expect("a folder");
    let mut capture = Synthetic::new(folder.path());
    capture.device(1);
    let line = capture.python(&[(TRAIN, "train", 7, true)]);
    for step in 1..=10 {
        for device in [0, 1] {
            capture.event(Event {
                kind: EventKind::ALLOC,
                level: Level::TENSOR,
                device: DeviceOrdinal(device),
                ptr: if device == 0 { step } else { 1 + step % 2 },
                bytes: M,
                py_stack: line,
                ..Event::default()
            });
            if device == 1 {
                capture.event(Event {
                    kind: EventKind::FREE,
                    level: Level::TENSOR,
                    device: DeviceOrdinal(device),
                    ptr: 1 + step % 2,
                    bytes: M,
                    ..Event::default()
                });
            }
        }
        capture.mark(EventKind::STEP, step);
    }
    let file = capture.finish();
    let found = leaks(&[], &file);
    assert_eq!(found["rows"].as_array().unwrap().len(), 1, "{found}");
    assert_eq!(
        (&found["rows"][0]["device"], &found["bytes"]),
        (&json!(0), &json!(10 * M))
    );
    assert_eq!(leaks(&["--device", "1"], &file)["rows"], json!([]));
}
