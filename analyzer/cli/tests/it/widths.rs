//! Text at each width of a terminal: no line is wider, and rows that differ are not shown alike.
//!
//! These tests find a column that cannot shrink, a note that is cut where only it distinguishes two rows, a character
//! that is not ASCII where text must be, and a colour where colours are off.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;

use unicode_width::UnicodeWidthStr as _;

use crate::captures::{Captures, none};
use crate::run::{Screen, json_of, run_on, stderr, stdout};
use crate::value::list;

const WIDTHS: [usize; 4] = [60, 80, 120, 200];
/// A training, one that ran out of memory, one with two GPUs, one with collectives, one with a growing cache.
const CAPTURES: [&str; 5] = ["demo", "graphs", "stray", "nccl", "growth"];

/// What a command line prints on a terminal with colours.
fn on_terminal(
    columns: usize,
    words: &[&str],
    captures: &Captures,
    name: &str,
) -> (String, Option<i32>) {
    let screen = Screen {
        columns: Some(columns),
        has_colour: true,
        is_ascii: false,
    };
    on(screen, words, captures, name)
}

fn on(screen: Screen, words: &[&str], captures: &Captures, name: &str) -> (String, Option<i32>) {
    let file = captures.path(name);
    let words = words.iter().map(OsStr::new).chain([file.as_os_str()]);
    let output = run_on(screen, words);
    (stdout(&output) + &stderr(&output), output.status.code())
}

/// The text without colours.
fn plain(text: &str) -> String {
    let mut parts = text.split("\x1b[");
    let mut plain = parts.next().unwrap_or_default().to_owned();
    parts.for_each(|part| plain += part.split_once('m').expect("an end").1);
    plain
}

/// The lines that do not fit, except single words such as paths: these stay whole, so that they can be copied.
fn wider(text: &str, columns: usize) -> Vec<String> {
    let text = plain(text);
    let is_wider = |line: &&str| line.width() > columns && line.split_whitespace().count() > 1;
    text.lines().filter(is_wider).map(str::to_owned).collect()
}

fn fits(command: &str) {
    let captures = Captures::copied(&CAPTURES);
    let words: Vec<&str> = command.split_whitespace().collect();
    let mut faults = Vec::new();
    for name in CAPTURES {
        for columns in WIDTHS {
            let (text, code) = on_terminal(columns, &words, &captures, name);
            let of = format!("{command}: {name}: {columns} columns");
            if code != Some(0) || text.trim().is_empty() {
                faults.push(format!("{of}: exit {code:?}: {text}"));
            }
            faults.extend(
                wider(&text, columns)
                    .iter()
                    .map(|line| format!("{of}: {line}")),
            );
        }
        let ascii = Screen {
            columns: Some(80),
            is_ascii: true,
            ..Screen::default()
        };
        let (text, _) = on(ascii, &words, &captures, name);
        let wrong = text
            .lines()
            .filter(|line| !line.is_ascii() || line.contains('\x1b'));
        let wrong = wrong.map(str::to_owned).chain(wider(&text, 80));
        faults.extend(wrong.map(|line| format!("{command}: {name}: ASCII: {line}")));
    }
    none(&faults);
}

macro_rules! views {
    ($($name:ident: $command:literal;)*) => {
        $(#[test]
        fn $name() {
            fits($command);
        })*
    };
}

views! {
    report: "";
    summary: "report --all";
    lines: "lines";
    lines_at_the_end: "lines --at end";
    lines_of_the_driver: "lines --level driver";
    categories: "lines --by category";
    modules: "lines --by module";
    annotated: "lines --annotate";
    ledger: "ledger";
    ledger_by_owner: "ledger --by owner";
    segments: "ledger --segments";
    leaks: "leaks";
    temporary: "lines --of temporary";
    fragmentation: "ledger --pool";
    sizes: "lines --by size";
    threads: "lines --by thread";
    scopes: "lines --by scope";
    changes: "changes";
    hints: "report --hints";
    oom: "oom";
    tree: "tree";
    native_tree: "tree --native";
    timeline: "timeline --format text";
    check: "check";
}

/// Each line of code is shown with all that distinguishes it from its neighbours.
#[test]
fn rows_that_differ_are_told_apart() {
    let captures = Captures::copied(&CAPTURES);
    let mut faults = Vec::new();
    for name in CAPTURES {
        let (rows, _) = json_of(&["lines", "--format", "json"], &captures.path(name));
        let rows = list(&rows);
        for columns in WIDTHS {
            let (text, _) = on_terminal(columns, &["lines"], &captures, name);
            let shown = shown(&plain(&text));
            let of = format!("{name}: {columns} columns");
            if shown.len() != rows.len() {
                faults.push(format!(
                    "{of}: {} of {} rows in:\n{text}",
                    shown.len(),
                    rows.len()
                ));
                continue;
            }
            let mut alike: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
            for (row, shown) in rows.iter().zip(shown) {
                let keys = ["file", "line", "phase", "node", "workspace", "library"];
                let row = keys.map(|key| row[key].to_string()).join(" ");
                alike.entry(shown).or_default().insert(row);
            }
            let alike = alike.iter().filter(|(_, rows)| rows.len() > 1);
            faults.extend(alike.map(|(text, rows)| format!("{of}: {text:?} is {rows:?}")));
        }
    }
    none(&faults);
}

/// The rows of `lines` without their figures, with the lines below that belong to them.
fn shown(text: &str) -> Vec<String> {
    let mut shown: Vec<String> = Vec::new();
    for line in text.lines().skip(1) {
        match (without_figures(line), shown.last_mut()) {
            // A part of the line above.
            (Some(row), _) if row.starts_with("   ") => {}
            (Some(row), _) => shown.push(row.to_owned()),
            (None, Some(last)) if line.starts_with("    ") => {
                last.push('\n');
                last.push_str(line);
            }
            _ => {}
        }
    }
    shown
}

/// What is before `1.00 MiB  5.0 %  3`, or `1.00 MiB  5.0 %  3  GPU 0`.
fn without_figures(line: &str) -> Option<&str> {
    let device = line
        .rfind("  GPU ")
        .filter(|at| line[at + 6..].bytes().all(|c| c.is_ascii_digit()));
    let line = line[..device.unwrap_or(line.len())].trim_end();
    let mut before = line;
    let mut last = || {
        let (rest, word) = before.rsplit_once(' ')?;
        before = rest.trim_end();
        Some(word)
    };
    let is_count = last()?.bytes().all(|c| c.is_ascii_digit() || c == b',');
    let is_share = last()? == "%" && last().is_some();
    let is_size = matches!(last()?, "B" | "KiB" | "MiB" | "GiB") && last().is_some();
    (is_count && is_share && is_size).then_some(before)
}

#[test]
fn addresses_and_line_numbers_are_whole_at_80_columns() {
    let captures = Captures::copied(&["demo"]);
    let (text, _) = on_terminal(80, &["ledger", "--pool"], &captures, "demo");
    let text = plain(&text);
    let lines = text.lines().filter_map(|line| line.strip_prefix("  0x"));
    let addresses: Vec<&str> = lines
        .filter_map(|line| line.split_whitespace().next())
        .collect();
    let is_whole =
        |address: &&str| address.len() >= 6 && address.bytes().all(|c| c.is_ascii_hexdigit());
    assert!(
        !addresses.is_empty() && addresses.iter().all(is_whole),
        "{text}"
    );
    assert_eq!(
        BTreeSet::from_iter(&addresses).len(),
        addresses.len(),
        "{text}"
    );
    let (text, _) = on_terminal(80, &["lines"], &captures, "demo");
    let mut after = text.split(".py:").skip(1);
    let is_cut = |rest: &str| {
        rest.trim_start_matches(|c: char| c.is_ascii_digit())
            .starts_with('…')
    };
    assert!(!after.any(is_cut), "{text}");
}

#[test]
fn the_largest_block_is_whole_in_the_breakdown() {
    let captures = Captures::copied(&["demo"]);
    let views: [&[&str]; 2] = [&[], &["ledger"]];
    for (columns, view) in WIDTHS
        .iter()
        .flat_map(|columns| views.map(|view| (columns, view)))
    {
        let text = plain(&on_terminal(*columns, view, &captures, "demo").0);
        let mut rows = text
            .lines()
            .filter_map(|line| line.strip_prefix("  reserved "));
        let row = rows.next().expect("a row");
        let size = row.rsplit_once("  largest block ").expect("a size").1;
        let (number, unit) = size.split_once(' ').expect("a unit");
        let is_whole = number.parse::<f64>().is_ok() && matches!(unit, "KiB" | "MiB" | "GiB");
        assert!(is_whole, "{columns}: {row}");
        // At 60 columns, names are cut where an owner is long.
        assert!(
            *columns < 80 || row.starts_with("but unallocated  "),
            "{columns}: {row}"
        );
    }
}

#[test]
fn text_is_utf_8_unless_it_must_be_ascii() {
    let captures = Captures::copied(&["demo"]);
    assert!(
        on_terminal(80, &["lines", "--by", "size"], &captures, "demo")
            .0
            .contains('█')
    );
}

#[test]
fn the_option_decides_on_colour() {
    let captures = Captures::copied(&["demo"]);
    let coloured = |has_colour, words: &[&str]| {
        let screen = Screen {
            has_colour,
            ..Screen::default()
        };
        on(screen, words, &captures, "demo").0.contains("\x1b[")
    };
    assert!(coloured(true, &["report", "--all"]) && !coloured(false, &["report", "--all"]));
    assert!(coloured(false, &["--color", "always", "report", "--all"]));
    assert!(coloured(false, &["report", "--all", "--colour=always"]));
    assert!(!coloured(true, &["--color=never", "report", "--all"]));
    assert!(coloured(false, &["--color", "always", "--help"]) && !coloured(false, &["--help"]));
    assert!(coloured(
        false,
        &["--color", "always", "lines", "--no-such"]
    ));
    assert!(!coloured(true, &["--color", "never", "lines", "--no-such"]));
}

#[test]
fn help_fits() {
    let captures = Captures::copied(&[]);
    for columns in [60, 80, 120] {
        let (text, code) = on_terminal(columns, &["--help"], &captures, "none");
        let (options, _) = text.split_once("Examples:").expect("examples");
        assert_eq!((wider(options, columns), code), (vec![], Some(0)));
    }
}
