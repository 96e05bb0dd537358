//! `changes`: each change is charged to the line that made it, and the changes sum to every other view's figures.

use gpumem_capture::StackId;
use tempfile::tempdir;

use crate::captures::Captures;
use crate::golden::golden;
use crate::run::{analyze, json_of, stdout};
use crate::synthetic::{M, Synthetic};
use crate::value::{int, list, sum};

/// gpu_mem_track's form, on a flat script as its users write them.
#[test]
fn frees_without_a_stack_belong_to_the_section_before_the_next_line() {
    let folder = tempdir().expect("a folder");
    let mut capture = Synthetic::new(folder.path());
    let line =
        |capture: &mut Synthetic, line| capture.python(&[("flat.py", "<module>", line, true)]);
    let (first, second, last) = (
        line(&mut capture, 2),
        line(&mut capture, 3),
        line(&mut capture, 5),
    );
    capture.tensor(0x1000_0000, 3 * M, 0, first, StackId::NONE);
    for block in 0..5 {
        capture.tensor(0x2000_0000 + block * 2 * M, 2 * M, 0, second, StackId::NONE);
    }
    for block in 1..5 {
        capture.free_tensor(0x2000_0000 + block * 2 * M, 2 * M, 0, StackId::NONE);
    }
    capture.tensor(0x3000_0000, M, 0, last, StackId::NONE);
    let file = capture.finish();
    golden("changes-flat.txt", &stdout(&analyze(&["changes"], &file)));
}

/// Three ways to the same figure: the total after a section, the lines at its last event, and all changes up to it.
#[test]
fn lines_at_an_event_sum_to_the_changes_so_far() {
    let captures = Captures::copied(&["demo"]);
    let file = captures.path("demo");
    let (changes, _) = json_of(&["changes", "--format", "json"], &file);
    let changes = list(&changes);
    let (mut so_far, mut compared) = (0, 0);
    for (index, pair) in changes.windows(2).enumerate() {
        so_far += int(&pair[0]["change_bytes"]);
        assert_eq!(so_far, int(&pair[0]["total_bytes"]), "{}", pair[0]);
        if index % 40 == 0 {
            let before = (int(&pair[1]["seq"]) - 1).to_string();
            let (rows, _) = json_of(&["lines", "--format", "json", "--at", &before], &file);
            assert_eq!(sum(&rows, "bytes"), so_far, "event {before}");
            compared += 1;
        }
    }
    assert!(changes.len() > 50 && compared > 1, "{}", changes.len());
}
