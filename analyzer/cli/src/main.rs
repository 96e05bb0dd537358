//! `gpumem-analyze`: the process around the library.
#![forbid(unsafe_code)]

use std::ffi::OsString;
use std::io::{self, BufWriter, IsTerminal as _};
use std::process::ExitCode;

use anstream::{AutoStream, ColorChoice};
use gpumem_analyze::{Notes, Output, locale, run};
use gpumem_analyzer::render::{Colour, Terminal};

#[global_allocator]
static ALLOCATOR: gpumem_budget::Counted = gpumem_budget::Counted;

fn main() -> ExitCode {
    let arguments: Vec<OsString> = std::env::args_os().collect();
    // Not locked, because the threads of mcp write to it, too.
    let mut out = BufWriter::new(io::stdout());
    let mut notes = io::stderr();
    let clap_colour = (
        AutoStream::choice(&io::stdout()) != ColorChoice::Never,
        AutoStream::choice(&notes) != ColorChoice::Never,
    );
    let mut output = Output {
        out: &mut out,
        notes: Notes(&mut notes),
        terminal: Terminal::of_stdout(Colour::Auto),
        is_terminal: io::stdout().is_terminal(),
        is_ascii: locale::wants_ascii(),
        clap_colour,
    };
    ExitCode::from(run(&arguments, &mut output))
}
