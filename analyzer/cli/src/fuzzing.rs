//! For the fuzz targets (fuzz/) and the tests that run them on their seeds: every view and export, and gpumem.toml.

use std::ffi::OsString;
use std::path::Path;

use gpumem_capture::text;

use crate::commands::budgets::file;
use crate::{Output, run};

/// The form of a command's output.
enum Form {
    Text,
    Json,
    Binary,
}

/// Commands whose output is on standard output. `@` is the capture.
const COMMANDS: [(&str, Form); 38] = [
    ("@", Form::Text),
    ("@ --format json", Form::Json),
    ("report --all @", Form::Text),
    ("report --all @ --format json", Form::Json),
    ("lines @", Form::Text),
    ("lines @ --by module --format json", Form::Json),
    ("lines @ --level driver --at end", Form::Text),
    ("ledger @", Form::Text),
    ("ledger @ --segments", Form::Text),
    ("ledger @ --format json", Form::Json),
    ("leaks @", Form::Text),
    ("leaks @ --format json", Form::Json),
    ("lines --of temporary @", Form::Text),
    ("ledger --pool @", Form::Text),
    ("lines --by size @", Form::Text),
    ("lines --by thread @ --format json", Form::Json),
    ("lines --by scope @ --all", Form::Text),
    ("lines --by scope @ --format json", Form::Json),
    ("changes @", Form::Text),
    ("changes @ --format json", Form::Json),
    ("report --hints @", Form::Text),
    ("oom @", Form::Text),
    ("oom @ --format json", Form::Json),
    ("tree @ --native", Form::Text),
    ("tree @ --format json", Form::Json),
    ("timeline @ --format text", Form::Text),
    ("timeline @ -o -", Form::Text),
    ("check @", Form::Text),
    ("diff @ @", Form::Text),
    ("ranks @ @", Form::Text),
    ("flamegraph @ -o -", Form::Text),
    ("html @ -o -", Form::Binary),
    ("export folded @ -o -", Form::Text),
    ("export perfetto @ -o -", Form::Json),
    ("export speedscope @ -o -", Form::Json),
    ("export firefox @ -o -", Form::Json),
    ("export pprof @ -o -", Form::Binary),
    ("export torch-snapshot @ -o -", Form::Binary),
];

/// Runs one of the commands on a capture, and checks its exit code and that its text has no character that a terminal
/// acts on, or that its JSON is JSON. Returns the exit code.
///
/// # Panics
/// If it is not.
pub fn judge_view(capture: &Path, which: usize) -> u8 {
    let (line, form) = &COMMANDS[which % COMMANDS.len()];
    let words = line.split(' ').map(|word| match word {
        "@" => capture.into(),
        word => OsString::from(word),
    });
    let arguments: Vec<OsString> = ["gpumem-analyze".into()].into_iter().chain(words).collect();
    let (mut out, mut notes) = (Vec::new(), Vec::new());
    let code = run(&arguments, &mut Output::plain(&mut out, &mut notes));
    let notes = String::from_utf8(notes).expect("messages are UTF-8");
    assert!([0, 1, 3].contains(&code), "{line}: {code}: {notes}");
    assert_eq!(text::clean_lines(&notes), notes, "{line}");
    match form {
        Form::Binary => {}
        Form::Text => {
            let out = String::from_utf8(out).expect("text is UTF-8");
            assert_eq!(text::clean_lines(&out), out, "{line}");
        }
        Form::Json if out.is_empty() => assert_ne!(code, 0, "{line}: {notes}"),
        Form::Json => drop(serde_json::from_slice::<serde_json::Value>(&out).expect(line)),
    }
    code
}

/// Reads a text as gpumem.toml. Returns whether it is one.
///
/// # Panics
/// If the error is not one line of clean text, or names a line that the text does not have.
pub fn judge_budgets(text: &str) -> bool {
    match file::parse(text) {
        Ok(_) => true,
        Err((line, why)) => {
            let lines = text.bytes().filter(|byte| *byte == b'\n').count() + 1;
            assert!((1..=lines).contains(&line), "line {line} of {lines}: {why}");
            assert!(!why.is_empty() && !why.contains('\n'), "{why:?}");
            false
        }
    }
}
