//! Runs command lines in this process, and few in separate ones.

use std::ffi::{OsStr, OsString};
use std::os::unix::process::ExitStatusExt as _;
use std::path::Path;
use std::process::{Command, ExitStatus, Output};

use gpumem_analyzer::render::Terminal;
use serde_json::Value;

/// The destination of a command's output.
#[derive(Clone, Copy, Debug, Default)]
pub struct Screen {
    /// Columns of a terminal; `None`: a pipe.
    pub columns: Option<usize>,
    pub has_colour: bool,
    pub is_ascii: bool,
}

/// Runs a command line in this process.
pub fn run_on<A: AsRef<OsStr>>(screen: Screen, arguments: impl IntoIterator<Item = A>) -> Output {
    let words = arguments.into_iter().map(|word| word.as_ref().to_owned());
    let arguments: Vec<OsString> = ["gpumem-analyze".into()].into_iter().chain(words).collect();
    let (mut stdout, mut stderr) = (Vec::new(), Vec::new());
    let mut output = gpumem_analyze::Output::plain(&mut stdout, &mut stderr);
    output.terminal = Terminal {
        width: screen.columns,
        colour: screen.has_colour,
    };
    output.is_terminal = screen.columns.is_some();
    output.is_ascii = screen.is_ascii;
    output.clap_colour = (screen.has_colour, screen.has_colour);
    let code = gpumem_analyze::run(&arguments, &mut output);
    Output {
        status: ExitStatus::from_raw(i32::from(code) << 8),
        stdout,
        stderr,
    }
}

/// The same; the output is a pipe.
pub fn run<A: AsRef<OsStr>>(arguments: impl IntoIterator<Item = A>) -> Output {
    run_on(Screen::default(), arguments)
}

/// Runs a command on a capture.
pub fn analyze(arguments: &[&str], file: &Path) -> Output {
    run(arguments.iter().map(OsStr::new).chain([file.as_os_str()]))
}

/// The program, in a separate process. Cargo builds it beside the folder of this one; what it compiles names no place,
/// so that a clone elsewhere need not compile it again.
pub fn program() -> Command {
    let own = std::env::current_exe().expect("a path");
    let built = own.ancestors().nth(2).expect("target/debug");
    Command::new(built.join("gpumem-analyze"))
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
