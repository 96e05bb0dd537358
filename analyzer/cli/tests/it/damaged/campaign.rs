//! The damage campaign: captures with random bytes changed or cut off. A fault is a crash, a figure that differs from
//! the undamaged capture's without a note, or a partial result without a list of the missing parts.
//!
//! docs/measured/damage.md has its results. `GPUMEM_DAMAGE=CHANGES:CUTS:SEED` chooses other cases.

use std::collections::{BTreeMap, BTreeSet};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};
use tempfile::tempdir;

use super::dice::Dice;
use crate::captures::{contents, none};
use crate::run::{analyze, found, stderr, stdout};
use crate::value::list;

const FILES: [&str; 9] = [
    "torch-kill",
    "torch-return",
    "lost",
    "killed",
    "baked",
    "wrapped",
    "closed",
    "journal",
    "merged",
];
const VIEWS: [(&str, &[&str]); 5] = [
    ("check", &["check"]),
    ("summary", &["report", "--all"]),
    ("lines", &["lines"]),
    (
        "driver lines",
        &["lines", "--level", "driver", "--at", "end"],
    ),
    ("ledger", &["ledger"]),
];
/// Fields of a view that describe the file, not the program. A changed byte in an empty slot of the ring looks like the
/// beginning of a record, and a note reports it.
const OF_THE_FILE: [&str; 7] = [
    "bytes",
    "missing",
    "notes",
    "damage",
    "whole",
    "exact",
    "in_flight",
];
/// Address space and processor time of all cases.
const LIMITS: &str = "ulimit -v 786432 -t 600";

/// What a view answers.
#[derive(Clone)]
struct Answer {
    /// `None`: it panicked.
    code: Option<i32>,
    out: String,
    said: String,
}

fn answer(words: &[&str], file: &Path) -> Answer {
    let words = [words, &["--format", "json"]].concat();
    match catch_unwind(AssertUnwindSafe(|| analyze(&words, file))) {
        Ok(output) => Answer {
            code: output.status.code(),
            out: stdout(&output),
            said: stderr(&output),
        },
        Err(_) => Answer {
            code: None,
            out: String::new(),
            said: String::new(),
        },
    }
}

fn answers(file: &Path) -> BTreeMap<&'static str, Answer> {
    VIEWS
        .map(|(view, words)| (view, answer(words, file)))
        .into()
}

/// What is missing according to a view.
fn missing(view: &str, answer: &Answer) -> BTreeSet<String> {
    if matches!(view, "check" | "summary") {
        let lines = found(answer.out.as_bytes());
        return list(&lines["missing"])
            .iter()
            .map(Value::to_string)
            .collect();
    }
    let lines = answer
        .said
        .lines()
        .filter(|line| line.contains("partial: "));
    lines.map(str::to_owned).collect()
}

/// All figures and names of the program in a view.
fn figures(answer: &Answer) -> Value {
    let mut content = found(answer.out.as_bytes());
    if let Value::Object(fields) = &mut content {
        // Counters whose place in the order of records is damaged are not compared, and a note reports it. The field
        // then has no value.
        let notes = fields["notes"].to_string();
        let is_unknown = fields.get("counters_agree").is_some_and(Value::is_null);
        if is_unknown && notes.contains("not compared") {
            fields.insert("counters_agree".into(), json!(true));
        }
        OF_THE_FILE.iter().for_each(|key| _ = fields.remove(*key));
    }
    content
}

/// The fault of an answer about the damaged capture `file`.
fn fault(view: &str, file: &Path, whole: &Answer, now: &Answer) -> Option<String> {
    let one_line = now.said.lines().count() == 1 && now.said.contains(&file.display().to_string());
    match now.code {
        Some(1) if one_line && now.out.is_empty() => return None,
        Some(1) => return Some(format!("no result, and not one line: {}", now.said)),
        Some(0 | 3) => {}
        code => return Some(format!("crashes: exit {code:?}: {}", now.said)),
    }
    let is_same = figures(now) == figures(whole);
    let (missing, before) = (missing(view, now), missing(view, whole));
    if now.code == Some(0) {
        // A complete file can have figures that are not exact; `check` lists the reasons.
        let is_known = view == "check" && missing.is_subset(&before);
        return match (whole.code, missing.is_empty() || is_known, is_same) {
            (Some(0), true, true) => None,
            (Some(0), true, false) => Some("called complete, with other figures".into()),
            _ => Some("called complete, and is not".into()),
        };
    }
    if missing.is_empty() {
        return Some("partial, and does not list what is missing".into());
    }
    if view == "summary" && found(now.out.as_bytes())["exact"] == true {
        return Some("partial, and called exact".into());
    }
    (!is_same && missing.is_subset(&before))
        .then(|| "other figures, and nothing more is missing than before".into())
}

/// The cases, in a process with limits.
#[test]
fn random_damage_is_never_silent() {
    let program = std::env::current_exe().expect("this program");
    let limits = format!("{LIMITS}; exec \"$0\" \"$@\"");
    let mut cases = Command::new("sh");
    cases.args(["-c", &limits]).arg(program).args([
        "--exact",
        "damaged::campaign::cases",
        "--ignored",
        "--nocapture",
        "--test-threads=1",
    ]);
    let output = cases.output().expect("the process starts");
    let said = stdout(&output);
    let last = said.lines().rev().take(3).collect::<Vec<_>>().join("\n");
    assert!(
        output.status.success(),
        "{:?}: {last}\n{}",
        output.status,
        stderr(&output)
    );
    assert!(said.contains("1 passed"), "{said}");
}

#[test]
#[ignore = "random_damage_is_never_silent runs it"]
fn cases() {
    let (changes, cuts, seed) = asked();
    let folder = tempdir().expect("a folder");
    let captures = FILES.map(|name| {
        let (content, file) = (contents(name), folder.path().join(name));
        std::fs::write(&file, &content).expect("a file");
        let whole = answers(&file);
        let is_read = |answer: &Answer| matches!(answer.code, Some(0 | 3));
        assert!(whole.values().all(is_read), "{name}");
        (name, content, whole)
    });
    let (mut faults, mut exits) = (Vec::new(), BTreeMap::<_, u32>::new());
    for case in 0..changes + cuts {
        let (name, content, whole) = &captures[case as usize % FILES.len()];
        let mut dice = Dice::new(seed + case);
        let (word, damaged) = match case < changes {
            true => ("changed", dice.changed(content)),
            false => ("cut", dice.cut(content)),
        };
        let of = format!("{name} {word} {}", seed + case);
        println!("{of}");
        let file = folder.path().join("case.bin");
        std::fs::write(&file, damaged).expect("a file");
        let now = answers(&file);
        for (view, _) in VIEWS {
            let fault = fault(view, &file, &whole[view], &now[view]);
            faults.extend(fault.map(|fault| format!("{of}: {view}: {fault}")));
        }
        let codes = ["summary", "lines", "ledger"].map(|view| now[view].code);
        if codes.iter().any(|code| *code != codes[0]) {
            faults.push(format!(
                "{of}: views disagree on whether it is complete: {codes:?}"
            ));
        }
        *exits.entry(codes[0]).or_default() += 1;
    }
    println!("exit codes: {exits:?}");
    none(&faults);
    let partial = exits.get(&Some(3)).copied().unwrap_or(0);
    assert!(u64::from(partial) > (changes + cuts) * 3 / 5, "{exits:?}");
}

/// The number of changes and cuts, and the first seed.
fn asked() -> (u64, u64, u64) {
    let asked = std::env::var("GPUMEM_DAMAGE").unwrap_or_else(|_| "200:50:1000000".into());
    let numbers = asked
        .split(':')
        .map(|number| number.parse().expect("a number"));
    let [changes, cuts, seed] = numbers.collect::<Vec<u64>>()[..] else {
        panic!("GPUMEM_DAMAGE={asked}: expected CHANGES:CUTS:SEED")
    };
    (changes, cuts, seed)
}

/// A fault of each kind is reported, so the campaign can fail.
#[test]
fn the_campaign_finds_each_kind_of_fault() {
    let folder = tempdir().expect("a folder");
    let file = folder.path().join("x.bin");
    std::fs::write(&file, contents("killed")).expect("a file");
    let whole = answer(&["report", "--all"], &file);
    let (exact, not_exact) = (r#""exact": true"#, r#""exact": false"#);
    let partial = whole
        .out
        .replace(r#""missing": []"#, r#""missing": ["something"]"#);
    let partial = partial.replace(exact, not_exact);
    let other = whole.out.replace(r#""events": 19"#, r#""events": 18"#);
    assert!(whole.code == Some(0) && other != whole.out && partial.contains(not_exact));
    let of = |code, out: &str, said: &str| {
        let (out, said) = (out.to_owned(), said.to_owned());
        let fault = fault("summary", &file, &whole, &Answer { code, out, said });
        fault.unwrap_or_default()
    };
    assert_eq!(of(Some(0), &whole.out, ""), "");
    assert_eq!(of(Some(3), &partial, ""), "");
    assert_eq!(
        of(
            Some(1),
            "",
            &format!("gpumem-analyze: {}: damaged\n", file.display())
        ),
        ""
    );
    assert!(of(Some(0), &other, "").contains("other figures"));
    assert!(of(Some(0), &partial, "").contains("called complete"));
    assert!(of(Some(3), &whole.out, "").contains("does not list"));
    assert!(of(Some(3), &partial.replace(not_exact, exact), "").contains("called exact"));
    assert!(of(None, "", "").contains("crashes"));
    assert!(of(Some(101), "", "").contains("crashes"));
    assert!(of(Some(1), "", "two\nlines").contains("one line"));
}
