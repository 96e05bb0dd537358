//! The text of a view has the figure of each row of its JSON, in order, and its total.

use serde_json::Value;

use super::{json, words};
use crate::captures::{Captures, none};
use crate::run::{run, stdout};
use crate::value::{int, list, sum, sum_of};

const CAPTURES: [&str; 4] = ["demo", "oom", "pieces", "stray"];
/// The most segments that have a row each; the others share one.
const SEGMENTS: usize = 40;

/// The figures of the rows, and the text with the total.
type Shown = fn(&Value) -> (Vec<i64>, String);

fn shows(command: &str, shown: Shown) {
    let captures = Captures::copied(&CAPTURES);
    let mut faults = Vec::new();
    for name in CAPTURES {
        let (rows, total) = shown(&json(command, &captures, name));
        let text = stdout(&run(words(
            &format!("{command} --format text"),
            &captures,
            name,
        )));
        let mut fault =
            |what: String| faults.push(format!("{command}: {name}: {what} in:\n{text}"));
        if text.contains('\x1b') {
            fault("colour in a pipe".into());
        }
        if !text.contains(&total) {
            fault(format!("no {total:?}"));
        }
        let mut figures = figures(&text).into_iter();
        for row in rows.into_iter().map(human) {
            if !figures.any(|figure| figure == row) {
                fault(format!("no {row} in its place"));
                break;
            }
        }
    }
    none(&faults);
}

macro_rules! texts {
    ($($name:ident: $command:literal, $shown:expr;)*) => {
        $(#[test]
        fn $name() {
            shows($command, $shown);
        })*
    };
}

texts! {
    lines: "lines --level tensor FILE", |rows| table(rows, "No line owns memory");
    lines_at_the_end: "lines --level tensor --at end FILE", |rows| table(rows, "No line owns memory");
    modules: "lines --level tensor --by module FILE", |rows| table(rows, "Nothing was live");
    leaks: "leaks FILE", |leaks| table(&leaks["rows"], "No memory was live");
    temporary: "temporary --within 4 FILE", |all| (bytes(&all["rows"]), format!("Together {} in ", total(&all["rows"])));
    sizes: "sizes --level tensor FILE", |all| (of(&all[0]["rows"], "allocated_bytes"), human(int(&all[0]["allocated_bytes"])));
    threads: "threads --level tensor FILE", |all| (of(&all[0]["rows"], "allocated_bytes"), human(int(&all[0]["sum"]["live_bytes"])));
    ledger: "ledger FILE", ledger_rows;
    ledger_by_owner: "ledger --by owner FILE", ledger_rows;
    ledger_by_line: "ledger --by line --at end FILE", ledger_rows;
    fragmentation: "ledger --pool FILE", |pools| (segments(&pools[0]["segments"]), human(int(&pools[0]["reserved_bytes"])) + " reserved");
    diff: "diff --level tensor --at peak --to end FILE FILE", changed;
    timeline: "timeline FILE", |all| {
        let peak = &all["devices"][0]["peak"]["bytes"];
        (list(peak).iter().map(int).collect(), human(sum_of(peak)))
    };
    hints: "report --hints FILE", advice;
    changes: "changes --level tensor FILE", sections;
}

fn of(rows: &Value, field: &str) -> Vec<i64> {
    list(rows).iter().map(|row| int(&row[field])).collect()
}

fn bytes(rows: &Value) -> Vec<i64> {
    of(rows, "bytes")
}

fn total(rows: &Value) -> String {
    human(sum(rows, "bytes"))
}

fn table(rows: &Value, empty: &str) -> (Vec<i64>, String) {
    let total = match list(rows).is_empty() {
        true => empty.into(),
        false => format!("Together {}", total(rows)),
    };
    (bytes(rows), total)
}

fn ledger_rows(ledgers: &Value) -> (Vec<i64>, String) {
    let total = human(int(&ledgers[0]["bytes"]));
    (bytes(&ledgers[0]["rows"]), format!(": {total} of "))
}

fn segments(segments: &Value) -> Vec<i64> {
    let mut shown = bytes(segments);
    if shown.len() > SEGMENTS {
        let rest = shown.split_off(SEGMENTS);
        shown.push(rest.iter().sum());
    }
    shown
}

fn changed(diff: &Value) -> (Vec<i64>, String) {
    let mut rows = of(&diff["rows"], "change_bytes");
    rows.retain(|change| *change != 0);
    (rows, human(int(&diff["change_bytes"])))
}

fn advice(hints: &Value) -> (Vec<i64>, String) {
    // The bytes of an imbalance are the difference of two figures in the text.
    let hints = list(hints);
    let rows = hints.iter().filter(|hint| hint["kind"] != "imbalance");
    let none = if hints.is_empty() { "No hints" } else { "" };
    (rows.map(|hint| int(&hint["bytes"])).collect(), none.into())
}

fn sections(changes: &Value) -> (Vec<i64>, String) {
    let changes = list(changes);
    let groups = changes
        .iter()
        .flat_map(|change| [&change["added"], &change["removed"]]);
    let groups = groups.flat_map(|groups| list(groups));
    let rows = groups
        .map(|group| int(&group["bytes"]) * int(&group["blocks"]))
        .collect();
    let total = changes
        .last()
        .map(|last| int(&last["total_bytes"]) as f64 / (1 << 20) as f64);
    (
        rows,
        total.map_or("No memory changed".into(), |total| {
            format!("{total:.1} MiB")
        }),
    )
}

/// Bytes as people see them: three digits, in steps of 1024.
fn human(size: i64) -> String {
    if size < 0 {
        return format!("-{}", human(-size));
    }
    if size < 1024 {
        return format!("{size} B");
    }
    let mut value = size as f64;
    for unit in ["KiB", "MiB", "GiB", "TiB"] {
        value /= 1024.0;
        for (decimals, limit) in [(2, 10.0), (1, 100.0), (0, 1024.0)] {
            let text = format!("{value:.decimals$}");
            if text.parse::<f64>().is_ok_and(|shown| shown < limit) {
                return format!("{text} {unit}");
            }
        }
    }
    panic!("{size} bytes")
}

/// The sizes in a text, without plus signs.
fn figures(text: &str) -> Vec<String> {
    let words: Vec<&str> = text.split_whitespace().collect();
    let pairs = words.windows(2).filter_map(|pair| {
        let digits = pair[0].rfind(|c: char| !c.is_ascii_digit() && c != '.');
        let (before, number) = pair[0].split_at(digits.map_or(0, |at| at + ends(pair[0], at)));
        let unit = pair[1].trim_end_matches(|c: char| !c.is_alphanumeric());
        let is_size = number.starts_with(|c: char| c.is_ascii_digit())
            && !before.ends_with(|c: char| c.is_alphanumeric() || c == '_')
            && matches!(unit, "B" | "KiB" | "MiB" | "GiB");
        let sign = if before.ends_with('-') { "-" } else { "" };
        is_size.then(|| format!("{sign}{number} {unit}"))
    });
    pairs.collect()
}

/// The length of the character at this place.
fn ends(text: &str, at: usize) -> usize {
    text[at..].chars().next().map_or(0, char::len_utf8)
}
