//! Every view and export of captures whose names attack the place where they are shown.
//!
//! These tests find an escape sequence, a line end or a change of direction that reaches a terminal, markup that
//! reaches a page or a picture, and a format whose fields a name can leave.

use std::path::Path;
use std::time::Duration;

use gpumem_capture::{Definition, Function, Options, ProcessKey, Writer, text};
use quick_xml::events::Event;

use crate::again::Again;
use crate::captures::{Captures, none};
use crate::run::{analyze, run, stderr, stdout};

/// What is put around each name.
struct Attack {
    name: &'static str,
    before: &'static str,
    after: &'static str,
    /// Repetitions of `after`.
    times: usize,
}

const fn attack(name: &'static str, before: &'static str, after: &'static str) -> Attack {
    Attack {
        name,
        before,
        after,
        times: 1,
    }
}

const ATTACKS: [Attack; 4] = [
    attack(
        "hidden characters",
        "\x1b]0;title\x07\x1b[2J\u{202e}\u{2066}",
        "\0\x01\x08\t\n\x0b\x0c\r\x1b[1A\x1b[2K\x7f\u{80}\u{85}\u{9b}31m\u{2028}\u{2029}\u{200f}\u{61c}\u{2069}\
         \u{feff}\u{e0041}\u{ffff}",
    ),
    attack(
        "markup",
        "</text></title></script><script>alert(1)</script><!--",
        "\"'`&|*_[x](y)~#!{}\\^$]]>-->",
    ),
    attack(
        "formulas and paths",
        "=HYPERLINK(\"http://x\",\"y\")",
        ",\"\n=1+1\n;../../../../etc/passwd;/..;../ 100\\",
    ),
    Attack {
        name: "length",
        before: "@",
        after: "0123456789abcdef",
        times: 3_000,
    },
];

/// Captures with a failure, native stacks, and two GPUs.
const CAPTURES: [&str; 2] = ["stray", "oom"];
/// One with few names, for long ones.
const SMALL: [&str; 1] = ["tiny"];

const TEXTS: [&str; 26] = [
    "",
    "report --all",
    "lines",
    "lines --level driver --at end",
    "lines --by category",
    "lines --by module",
    "lines --annotate",
    "ledger",
    "ledger --by owner",
    "ledger --segments",
    "leaks",
    "lines --of temporary",
    "ledger --pool",
    "lines --by size",
    "lines --by thread",
    "lines --by scope",
    "lines --by scope --all",
    "changes",
    "report --hints",
    "oom",
    "tree",
    "tree --native",
    "timeline --format text",
    "check",
    "flamegraph --format folded -o -",
    "export folded -o -",
];

const JSON: [&str; 14] = [
    "report --all --format json",
    "lines --format json",
    "ledger --format json",
    "leaks --format json",
    "lines --by thread --format json",
    "lines --by scope --format json",
    "changes --format json",
    "report --hints --format json",
    "oom --format json",
    "tree --format json",
    "timeline --format json",
    "export speedscope -o -",
    "export perfetto -o -",
    "export firefox -o -",
];

const PICTURES: [&str; 4] = [
    "flamegraph -o -",
    "flamegraph --native --format icicle -o -",
    "flamegraph --color-by category -o -",
    "timeline -o -",
];

const BINARY: [&str; 5] = [
    "export pprof -o -",
    "export sqlite -o -",
    "export parquet -o -",
    "export arrow-stream -o -",
    "export torch-snapshot -o -",
];

impl Attack {
    fn on(&self, name: &mut String) {
        *name = format!("{}{name}{}", self.before, self.after.repeat(self.times));
    }

    /// The definition with other names. Facts that are read as numbers stay.
    fn on_all(&self, definition: &mut Definition) {
        match definition {
            Definition::Api { name, .. }
            | Definition::Thread { name, .. }
            | Definition::Range { name, .. }
            | Definition::NnModuleName { name, .. }
            | Definition::NnModule { class: name, .. }
            | Definition::Backward { node: name, .. }
            | Definition::Note { text: name } => self.on(name),
            Definition::Code { file, name, .. } => {
                self.on(file);
                self.on(name);
            }
            Definition::Module { path, .. } => self.on(path),
            Definition::Device { name, pci, .. } => {
                self.on(name);
                self.on(pci);
            }
            Definition::Hook {
                function, library, ..
            } => {
                self.on(function);
                self.on(library);
            }
            Definition::Symbol { functions, .. } => {
                for Function { name, file, .. } in functions {
                    self.on(name);
                    self.on(file);
                }
            }
            Definition::Process { key, value } => {
                let is_text = [
                    ProcessKey::COMMAND,
                    ProcessKey::EXECUTABLE,
                    ProcessKey::DIRECTORY,
                    ProcessKey::HOST,
                    ProcessKey::JOB,
                    ProcessKey::ALLOCATOR_CONF,
                    ProcessKey::ALLOCATOR_UNKNOWN,
                    ProcessKey::PYTORCH,
                ];
                if is_text.contains(&key.as_str()) || key.starts_with(ProcessKey::POSTMORTEM) {
                    self.on(value);
                }
            }
            _ => {}
        }
    }

    /// The capture, recorded again with these names.
    fn made(&self, from: &Path, to: &Path) {
        let options = Options::default()
            .ring_slots(1 << 18)
            .stall(Duration::from_secs(60));
        let writer = Writer::create(to, &options).expect("a new file");
        let mut again = Again::into(writer, false);
        again.changing(from, &mut |definition| self.on_all(definition));
        for note in ["a note", "another"] {
            let mut note = note.to_owned();
            self.on(&mut note);
            again.define(&Definition::Note { text: note });
        }
        again.finish();
    }
}

/// What is wrong with text for people.
fn unclean(shown: &str) -> Option<String> {
    let clean = text::clean_lines(shown);
    let at = shown.chars().zip(clean.chars()).position(|(a, b)| a != b)?;
    let from = at.saturating_sub(40);
    let part: String = shown.chars().skip(from).take(60).collect();
    Some(format!("{part:?}"))
}

fn ill_formed(svg: &str) -> Option<String> {
    let mut reader = quick_xml::Reader::from_str(svg);
    reader.config_mut().check_comments = true;
    let mut depth = 0_u32;
    loop {
        match reader.read_event() {
            Err(error) => return Some(error.to_string()),
            Ok(Event::Eof) => return (depth > 0).then(|| "an element is open at the end".into()),
            Ok(Event::Start(of)) => {
                depth += 1;
                // The pictures' own programs.
                if of.name().as_ref() == b"script" && svg.matches("<script").count() > 1 {
                    return Some("a second program".into());
                }
            }
            Ok(Event::End(_)) => depth -= 1,
            Ok(_) => {}
        }
    }
}

/// The fields of each row of CSV.
fn fields(csv: &str) -> Vec<Vec<String>> {
    let (mut rows, mut row, mut field, mut is_quoted) =
        (Vec::new(), Vec::new(), String::new(), false);
    let mut chars = csv.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            '"' if is_quoted && chars.peek() == Some(&'"') => {
                field.push('"');
                chars.next();
            }
            '"' => is_quoted = !is_quoted,
            ',' if !is_quoted => row.push(std::mem::take(&mut field)),
            '\n' if !is_quoted => {
                row.push(std::mem::take(&mut field));
                rows.push(std::mem::take(&mut row));
            }
            c => field.push(c),
        }
    }
    rows
}

/// Whether a line of Prometheus' format is one sample, or a comment.
fn is_sample(line: &str) -> bool {
    if line.starts_with("# HELP ") || line.starts_with("# TYPE ") {
        return true;
    }
    let (mut is_quoted, mut is_escaped, mut end) = (false, false, None);
    for (at, c) in line.char_indices() {
        match c {
            _ if is_escaped => is_escaped = false,
            '\\' if is_quoted => is_escaped = true,
            '"' => is_quoted = !is_quoted,
            ' ' if !is_quoted => {
                end = Some(at);
                break;
            }
            _ => {}
        }
    }
    end.is_some_and(|end| line[end + 1..].parse::<f64>().is_ok())
}

fn check(attack: &Attack, file: &Path, of: &str) -> Vec<String> {
    let mut faults = Vec::new();
    let mut done = |command: &str, check: &dyn Fn(&str) -> Option<String>| {
        let words: Vec<&str> = command.split_whitespace().collect();
        let output = analyze(&words, file);
        let code = output.status.code();
        let at = format!("{of}: {}: {command}", attack.name);
        if !matches!(code, Some(0 | 1 | 3)) {
            faults.push(format!("{at}: exit {code:?}: {}", stderr(&output)));
        }
        let mut add =
            |what: Option<String>| faults.extend(what.map(|what| format!("{at}: {what}")));
        add(unclean(&stderr(&output)));
        if code != Some(1) {
            add(check(&String::from_utf8_lossy(&output.stdout)));
        }
    };
    for command in TEXTS {
        done(command, &unclean);
    }
    for command in JSON {
        done(command, &|text| {
            let parsed: Result<serde_json::Value, _> = serde_json::from_str(text);
            parsed
                .err()
                .map(|error| error.to_string())
                .or_else(|| unclean(text))
        });
    }
    for command in PICTURES {
        done(command, &|svg| unclean(svg).or_else(|| ill_formed(svg)));
    }
    for command in BINARY {
        done(command, &|contents| {
            contents.is_empty().then(|| "nothing".into())
        });
    }
    done("export csv -o -", &|csv| {
        let rows = fields(csv);
        let columns = rows.first().map_or(0, Vec::len);
        let wrong = rows.iter().find(|row| row.len() != columns);
        wrong.map(|row| format!("{row:?}")).or_else(|| unclean(csv))
    });
    done("export csv --spreadsheet -o -", &|csv| {
        let is_formula = |field: &&String| field.starts_with(['=', '+', '-', '@']);
        let rows = fields(csv);
        let found = rows.iter().flatten().find(is_formula);
        found.map(|field| format!("a formula: {field}"))
    });
    done("export prometheus -o -", &|text| {
        let wrong = text.lines().find(|line| !is_sample(line));
        wrong.map(str::to_owned).or_else(|| unclean(text))
    });
    done("export folded -o -", &|text| {
        let is_stack = |line: &str| {
            line.rsplit_once(' ')
                .is_some_and(|(_, n)| n.parse::<u64>().is_ok())
        };
        text.lines().find(|line| !is_stack(line)).map(str::to_owned)
    });
    done("html -o -", &|html| {
        let own = html.matches("<script").count();
        let foreign = html.contains("<script>alert(1)");
        (own > 2 || foreign)
            .then(|| format!("{own} programs"))
            .or_else(|| unclean(html))
    });
    faults
}

fn withstands(attack: &Attack) {
    let captures: &[&str] = match attack.times {
        1 => &CAPTURES,
        _ => &SMALL,
    };
    let from = Captures::copied(captures);
    let folder = tempfile::tempdir().expect("a folder");
    let mut faults = Vec::new();
    for name in captures {
        let file = folder.path().join(format!("{name}.bin"));
        attack.made(&from.path(name), &file);
        faults.extend(check(attack, &file, name));
    }
    let ranks = folder.path().to_str().expect("plain path");
    for words in [
        &["ranks", ranks][..],
        &["ranks", "--format", "json", ranks],
        &["ranks", "-o", "-", ranks],
    ] {
        let output = run(words);
        let texts = [stdout(&output), stderr(&output)];
        let unclean = texts.iter().find_map(|text| unclean(text));
        faults.extend(unclean.map(|what| format!("{words:?}: {what}")));
    }
    none(&faults);
}

macro_rules! attacks {
    ($($name:ident: $number:literal;)*) => {
        $(#[test]
        fn $name() {
            withstands(&ATTACKS[$number]);
        })*
    };
}

attacks! {
    hidden_characters: 0;
    markup: 1;
    formulas_and_paths: 2;
    long_names: 3;
}
