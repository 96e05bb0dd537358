//! Compares the captures of a change, and checks limits and budgets.

use std::path::{Path, PathBuf};
use std::process::Output;

use gpumem_capture::{Definition, DeviceOrdinal, Event, EventKind, Level, NnModuleId, StackId};
use serde_json::Value;
use tempfile::{TempDir, tempdir};

use crate::golden::golden;
use crate::run::{found, program, stderr, stdout};
use crate::synthetic::{M, Synthetic};

/// A tensor by its line and bytes.
type Tensor = (&'static str, &'static str, u32, u64);

/// Folders `base` and `head` of captures, and a file of budgets.
struct Change {
    folder: TempDir,
}

impl Change {
    fn new() -> Self {
        Self {
            folder: tempdir().expect("a folder"),
        }
    }

    fn path(&self) -> &Path {
        self.folder.path()
    }

    /// A capture of tensors that are live together, made in a module.
    fn add(&self, file: &str, tensors: &[Tensor]) -> PathBuf {
        let path = self.path().join(file);
        let scratch = tempdir().expect("a folder");
        let mut capture = Synthetic::new(scratch.path());
        capture.define(&Definition::NnModule {
            id: NnModuleId(1),
            object: 1,
            class: "Block".into(),
        });
        for (number, (file, function, line, bytes)) in (1..).zip(tensors) {
            let frames = [(*file, *function, *line, true)];
            let stack = capture.python_in(&frames, &[(0, 1)]);
            capture.tensor(number << 32, *bytes, 0, stack, StackId::NONE);
        }
        let made = capture.finish();
        std::fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
        std::fs::copy(made, &path).expect("a copy");
        path
    }

    fn budgets(&self, text: &str) {
        std::fs::write(self.path().join("gpumem.toml"), text).expect("a file");
    }

    fn ci(&self, arguments: &[&str]) -> Output {
        program()
            .args(["ci", "--today", "2026-11-26"])
            .args(arguments)
            .current_dir(self.path())
            .output()
            .expect("the program starts")
    }

    /// Compares both folders; returns the output and the exit code.
    fn compared(&self, arguments: &[&str]) -> (String, i32) {
        let folders = ["--base", "base", "--head", "head"];
        let done = self.ci(&[&folders[..], arguments].concat());
        let said = stdout(&done) + &stderr(&done);
        (said, done.status.code().expect("an exit code"))
    }

    fn json(&self, arguments: &[&str]) -> Value {
        let (said, _) = self.compared(&[&["--format", "json"], arguments].concat());
        found(said.as_bytes())
    }
}

fn first(said: &str) -> &str {
    said.lines().next().unwrap_or_default()
}

/// Four workloads. In `train` two lines were added, and one of the others grew by 48 MiB: 3.1 %.
fn planted() -> Change {
    let change = Change::new();
    let train = "/home/me/run/train.py";
    for side in ["base", "head"] {
        change.add(&format!("{side}/eval.bin"), &[(train, "main", 3, 300 * M)]);
        change.add(&format!("{side}/sub/tiny.bin"), &[(train, "main", 3, 512)]);
        let odd = format!("{side}/a|b`<b>@all.bin");
        change.add(&odd, &[("/home/me/run/x|`<i>*.py", "f|<g>", 7, M)]);
    }
    change.add(
        "base/train.bin",
        &[(train, "make", 50, 1500 * M), (train, "make", 53, 48 * M)],
    );
    change.add(
        "head/train.bin",
        &[(train, "make", 52, 1500 * M), (train, "make", 55, 96 * M)],
    );
    change
}

#[test]
fn a_planted_growth_is_named_with_its_line() {
    let change = planted();
    let (said, exit) = change.compared(&["--fail-over", "2%"]);
    assert_eq!(exit, 4, "{said}");
    assert_eq!(
        first(&said),
        "### GPU memory: +3.1 % (+48.0 MiB) in 1 of 4 workloads, by `train.py:55`"
    );
    golden("ci.md", &said);
    let (said, exit) = change.compared(&["--fail-over", "4%"]);
    assert_eq!(exit, 0, "{said}");
    assert!(
        said.contains("**Passes.** Each workload may grow by 4 %."),
        "{said}"
    );
    // Exact to the byte.
    assert_eq!(change.compared(&["--fail-over", "50331648"]).1, 0);
    assert_eq!(change.compared(&["--fail-over", "50331647"]).1, 4);
}

#[test]
fn changes_of_lines_categories_and_modules_sum_to_the_change() {
    let found = planted().json(&[]);
    let workloads = found["workloads"].as_array().expect("workloads");
    assert_eq!(workloads.len(), 4);
    for workload in workloads {
        let row = &workload["devices"][0];
        for parts in ["lines", "categories", "modules"] {
            let parts = row[parts].as_array().expect("parts").iter();
            let sum: i64 = parts
                .map(|part| part["change_bytes"].as_i64().expect("bytes"))
                .sum();
            assert_eq!(Some(sum), row["change_bytes"].as_i64(), "{workload}");
        }
    }
    assert_eq!(found["outcome"], "passes");
}

#[test]
fn equal_bytes_are_unchanged() {
    let change = planted();
    let done = change.ci(&["--base", "base", "--head", "base", "--fail-over", "0%"]);
    assert_eq!(
        first(&stdout(&done)),
        "### GPU memory: unchanged in 4 workloads"
    );
    assert_eq!(done.status.code(), Some(0));
}

#[test]
fn names_are_no_markup() {
    let change = planted();
    change.add(
        "head/a|b`<b>@all.bin",
        &[("/home/me/run/x|`<i>*.py", "f|<g>", 7, 2 * M)],
    );
    let (said, _) = change.compared(&[]);
    for markup in ["<b>", "<i>", "<g>", "b`", "@all`"] {
        assert!(!said.contains(markup), "{markup}: {said}");
    }
    let rows = said.lines().filter(|line| line.starts_with("| "));
    for row in rows {
        assert_eq!(row.matches('|').count(), 6, "{row}");
    }
}

#[test]
fn a_comment_fits_a_screen() {
    let change = Change::new();
    const FILES: [&str; 3] = ["a.py", "b.py", "c.py"];
    for workload in 0..13 {
        for (side, unit) in [("base", 1), ("head", 2)] {
            let tensors: Vec<Tensor> = (1..30)
                .map(|line| {
                    (
                        FILES[line as usize % 3],
                        "f",
                        line,
                        u64::from(line) * unit * M,
                    )
                })
                .collect();
            change.add(&format!("{side}/w{workload}.bin"), &tensors);
        }
    }
    let (said, exit) = change.compared(&["--fail-over", "2%"]);
    assert_eq!(exit, 4);
    assert!(
        said.lines().count() <= 60,
        "{} lines:\n{said}",
        said.lines().count()
    );
    assert!(said.len() < 16_384, "{}", said.len());
    assert!(
        said.contains("- and 6 more") && said.contains("| 1 more |"),
        "{said}"
    );
}

#[test]
fn budgets_and_allowances_hold_until_their_day() {
    let change = planted();
    let rules = |until: &str, grow: &str, peak: &str| {
        change.budgets(&format!(
            "[budget.train]\npeak = \"{peak}\"\n[[allow]]\nworkload = \"train\"\ngrow = \"{grow}\"\nuntil = {until}\n\
             reason = \"bigger <vocabulary>, #123\"\n"
        ));
        let files = ["--base", "base/train.bin", "--head", "head/train.bin"];
        let done = change.ci(&[&files[..], &["--fail-over", "2%"]].concat());
        (stdout(&done), done.status.code().expect("an exit code"))
    };
    let (said, exit) = rules("2026-11-26", "64 MiB", "1.6 GiB");
    assert_eq!(exit, 0, "{said}");
    assert!(
        said.contains("64.0 MiB until 2026-11-26: bigger &#60;vocabulary&#62;, &#35;123"),
        "{said}"
    );
    let (said, exit) = rules("2026-11-25", "64 MiB", "1.6 GiB");
    assert_eq!(exit, 4);
    assert!(
        said.contains("- expired: `train` was allowed 64.0 MiB until 2026-11-25"),
        "{said}"
    );
    // An exceeded allowance is printed as the limit; a growth within an allowance is not printed.
    let (said, exit) = rules("2026-12-31", "40 MiB", "1.6 GiB");
    assert!(
        exit == 4 && said.contains("40.0 MiB (41,943,040 bytes) allowed"),
        "{said}"
    );
    let (said, exit) = rules("2026-12-31", "4%", "1.5 GiB");
    assert_eq!(exit, 4);
    assert!(said.contains("`train` uses 1.56 GiB"), "{said}");
    assert!(said.contains("its budget is 1.50 GiB"), "{said}");
}

#[test]
fn budgets_hold_without_a_base() {
    let change = planted();
    change.budgets(
        "[budget.train]\npeak = \"1 GiB\"\n[budget.\"tests/test_a.py::test_b\"]\npeak = 1\n",
    );
    let done = change.ci(&["--head", "head"]);
    assert_eq!(done.status.code(), Some(4));
    assert_eq!(
        first(&stdout(&done)),
        "### GPU memory: `train` is 572 MiB above its budget of 1.00 GiB"
    );
    // A limit that is not checked counts as an error.
    change.budgets("[budget.gone]\npeak = \"1 GiB\"\n");
    let done = change.ci(&["--head", "head"]);
    assert_eq!(done.status.code(), Some(3));
    assert!(stdout(&done).contains("not judged: `gone` has a budget and no capture"));
    let one = change.ci(&["--head", "head/eval.bin"]);
    assert_eq!(one.status.code(), Some(0), "{}", stdout(&one));
}

#[test]
fn wrong_budgets_are_refused_with_their_line() {
    let change = planted();
    change.budgets("[budget.train]\n\npeek = 1\n");
    let (said, exit) = change.compared(&[]);
    assert_eq!(exit, 1);
    assert!(
        said.contains("gpumem.toml:3: unknown field `peek`"),
        "{said}"
    );
    assert_eq!(said.lines().count(), 1, "{said}");
    let (said, exit) = change.compared(&["--budgets", "none.toml"]);
    assert!(exit == 1 && said.contains("none.toml"), "{said}");
}

#[test]
fn a_partial_capture_is_not_judged() {
    let change = planted();
    let capture = change.path().join("head/eval.bin");
    let whole = std::fs::read(&capture).expect("a capture");
    std::fs::write(&capture, &whole[..whole.len() - 64]).expect("a file");
    let (said, exit) = change.compared(&["--fail-over", "4%"]);
    assert_eq!(exit, 3, "{said}");
    assert!(
        first(&said).contains("1 of 4 workloads cannot be judged"),
        "{said}"
    );
    assert!(said.contains("- not judged: `eval`, head:"), "{said}");
    // A certain failure takes precedence.
    let (said, exit) = change.compared(&["--fail-over", "2%"]);
    assert!(exit == 4 && said.contains("not judged: `eval`"), "{said}");
}

#[test]
fn memory_without_tensors_is_no_peak_of_tensors() {
    let change = planted();
    let scratch = tempdir().expect("a folder");
    let mut capture = Synthetic::new(scratch.path());
    capture.alloc(Level::DRIVER, 0x1000, 400 * M, StackId::NONE, StackId::NONE);
    std::fs::copy(capture.finish(), change.path().join("head/eval.bin")).expect("a copy");
    // Nothing was recorded at this level, which differs from 0 bytes.
    let (said, exit) = change.compared(&["--fail-over", "4%"]);
    assert!(
        exit == 3 && said.contains("it has memory from CUDA, but no tensors"),
        "{said}"
    );
    change.budgets("[budget.eval]\npeak = \"1 GiB\"\nlevel = \"tensor\"\n");
    let done = change.ci(&["--head", "head/eval.bin"]);
    assert_eq!(done.status.code(), Some(3), "{}", stdout(&done));
    change.budgets("[budget.eval]\npeak = \"1 GiB\"\n");
    let done = change.ci(&["--head", "head/eval.bin"]);
    assert_eq!(done.status.code(), Some(0), "{}", stdout(&done));
    assert!(
        first(&stdout(&done)).contains("400 MiB from CUDA in `eval`"),
        "{}",
        stdout(&done)
    );
}

#[test]
fn each_gpu_is_judged_by_itself() {
    let change = Change::new();
    for (side, second) in [("base", 10), ("head", 11)] {
        let scratch = tempdir().expect("a folder");
        let mut capture = Synthetic::new(scratch.path());
        capture.device(1);
        for (device, bytes) in [(0, 100 * M), (1, second * M)] {
            capture.event(Event {
                kind: EventKind::ALLOC,
                level: Level::TENSOR,
                device: DeviceOrdinal(device),
                ptr: 0x1000 << device,
                bytes,
                ..Event::default()
            });
        }
        let made = capture.finish();
        std::fs::create_dir_all(change.path().join(side)).expect("a folder");
        std::fs::copy(made, change.path().join(side).join("w.bin")).expect("a copy");
    }
    // 1 MiB is under 1 % of both together, and 10 % of one.
    let (said, exit) = change.compared(&["--fail-over", "5%"]);
    assert_eq!(exit, 4);
    assert!(
        first(&said).contains("+10.0 % (+1.00 MiB) in `w`, GPU 1"),
        "{said}"
    );
}
