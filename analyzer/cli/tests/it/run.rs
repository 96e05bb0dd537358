//! Runs the program on a capture.

use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;

/// Runs the program; its output is a pipe.
pub fn analyze(arguments: &[&str], file: &Path) -> Output {
    Command::new(env!("CARGO_BIN_EXE_gpumem-analyze"))
        .args(arguments)
        .arg(file)
        .output()
        .expect("the program starts")
}

pub fn stdout(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).expect("UTF-8")
}

pub fn stderr(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).expect("UTF-8")
}

/// The JSON output of a command below its head, and its exit code.
pub fn json_of(arguments: &[&str], file: &Path) -> (Value, i32) {
    let output = analyze(arguments, file);
    let found = found(&output.stdout);
    (found, output.status.code().expect("an exit code"))
}

/// The JSON below its head: a list of rows, or an object.
pub fn found(text: &[u8]) -> Value {
    let mut said: Value = serde_json::from_slice(text)
        .unwrap_or_else(|error| panic!("{error}: {}", String::from_utf8_lossy(text)));
    let key = match said.get("rows") {
        Some(_) => "rows",
        None => "data",
    };
    said[key].take()
}
