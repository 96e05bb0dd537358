//! The program, run on a capture.

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

/// What a command prints as JSON, and its exit code.
pub fn json_of(arguments: &[&str], file: &Path) -> (Value, i32) {
    let output = analyze(arguments, file);
    let value = serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|error| panic!("{error}: {}{}", stdout(&output), stderr(&output)));
    (value, output.status.code().expect("an exit code"))
}
