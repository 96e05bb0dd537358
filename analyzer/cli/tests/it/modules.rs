//! Bytes by the PyTorch module that ran.

use std::path::{Path, PathBuf};

use gpumem_capture::{Definition, NnModuleId, StackId};
use serde_json::Value;
use tempfile::tempdir;

use crate::run::{analyze, json_of, stdout};
use crate::synthetic::{M, Synthetic};

/// Two blocks of a net with the same lines; the first has a name, the second does not. MiB: 1 and 2 in the linear
/// layers, 4 in the second block itself, 8 in the first block's backward, 16 in no module.
fn capture(folder: &Path) -> PathBuf {
    let mut capture = Synthetic::new(folder);
    for (id, class) in [
        (1, "Net"),
        (2, "Block"),
        (3, "Block"),
        (4, "Linear"),
        (5, "Linear"),
    ] {
        capture.define(&Definition::NnModule {
            id: NnModuleId(id),
            object: u64::from(id),
            class: class.into(),
        });
    }
    let lines = [
        ("net.py", "Linear.forward", 3, false),
        ("net.py", "Block.forward", 2, false),
        ("net.py", "Net.forward", 1, true),
    ];
    let first = capture.python_in(&lines, &[(0, 4), (1, 2), (2, 1)]);
    let second = capture.python_in(&lines, &[(0, 5), (1, 3), (2, 1)]);
    let block = capture.python_in(&lines[1..], &[(0, 3), (1, 1)]);
    let none = capture.python(&lines[2..]);
    let backward = capture.backward(first, (StackId::NONE, 0), false, "AddBackward");
    for (id, name) in [(2, "blocks.0"), (4, "blocks.0.fc")] {
        capture.define(&Definition::NnModuleName {
            id: NnModuleId(id),
            name: name.into(),
        });
    }
    for (number, stack) in (0..).zip([first, second, block, backward, none]) {
        capture.tensor(0x1000 << number, M << number, 0, stack, StackId::NONE);
    }
    capture.finish()
}

/// Names of modules, and MiB.
fn rows(found: &Value) -> Vec<(String, u64)> {
    let rows = found.as_array().expect("an array").iter();
    rows.map(|row| {
        let name = row["module"].as_str().unwrap_or("none");
        (name.to_owned(), row["bytes"].as_u64().expect("bytes") / M)
    })
    .collect()
}

#[test]
fn rows_are_modules_and_sum_to_the_level() {
    let folder = tempdir().expect("a folder");
    let file = capture(folder.path());
    let of = |arguments: &[&str]| {
        let arguments = [&["lines", "--by", "module", "--format", "json"], arguments].concat();
        let (found, exit) = json_of(&arguments, &file);
        assert_eq!(exit, 0);
        rows(&found)
    };
    let row = |name: &str, bytes| (name.to_owned(), bytes);
    let all = [
        row("none", 16),
        row("blocks.0.fc", 9),
        row("Block#2", 4),
        row("Linear#2", 2),
    ];
    assert_eq!(of(&[]), all);
    assert_eq!(of(&["--module", "blocks.*"]), all[1..2]);
    assert_eq!(of(&["--module", "Block#2"]), all[2..]);
    assert_eq!(of(&["--module", "Net#1"]), all[1..]);
    assert_eq!(of(&["--module", "(no module)"]), all[..1]);
    assert_eq!(of(&["--module", "*"]), all[1..]);
    assert_eq!(of(&["--module", "blocks"]), all[1..2]);
    assert_eq!(of(&["--module", "block"]), []);
}

#[test]
fn a_tree_has_names_and_where_there_are_none_callers() {
    let folder = tempdir().expect("a folder");
    let file = capture(folder.path());
    let (tree, exit) = json_of(&["tree", "--by", "module", "--format", "json"], &file);
    assert_eq!((exit, tree["bytes"].as_u64()), (0, Some(31 * M)));
    let mut found = Vec::new();
    fn walk(node: &Value, depth: usize, found: &mut Vec<(usize, String, u64)>) {
        let frame = node["frame"].as_str().expect("a name");
        found.push((
            depth,
            frame.to_owned(),
            node["bytes"].as_u64().expect("bytes") / M,
        ));
        for child in node["children"].as_array().expect("children") {
            walk(child, depth + 1, found);
        }
    }
    walk(&tree, 0, &mut found);
    let row = |depth, name: &str, bytes| (depth, name.to_owned(), bytes);
    let expected = [
        row(0, "all", 31),
        row(1, "(no module)", 16),
        row(1, "blocks", 9),
        row(2, "blocks.0", 9),
        row(3, "blocks.0.fc", 9),
        row(1, "Net#1", 6),
        row(2, "Block#2", 6),
        row(3, "Linear#2", 2),
    ];
    assert_eq!(found, expected);
}

#[test]
fn a_flamegraph_has_modules_as_frames() {
    let folder = tempdir().expect("a folder");
    let file = capture(folder.path());
    let folded = stdout(&analyze(
        &["flamegraph", "--by", "module", "--format", "folded"],
        &file,
    ));
    let lines: Vec<&str> = folded.lines().collect();
    assert_eq!(lines.len(), 5, "{folded}");
    assert!(
        lines.contains(&"Net#1;Block#2;Linear#2;net.py:3 2097152"),
        "{folded}"
    );
    let backward = "blocks;blocks.0;blocks.0.fc;net.py:3 (backward: AddBackward) 8388608";
    assert!(lines.contains(&backward), "{folded}");
}
