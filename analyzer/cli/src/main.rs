//! `gpumem-analyze`: the process around the library.
#![forbid(unsafe_code)]

use std::ffi::OsString;
use std::io::{self, BufWriter, IsTerminal as _};
use std::panic::{self, AssertUnwindSafe, PanicHookInfo};
use std::process::ExitCode;

use anstream::{AutoStream, ColorChoice};
use gpumem_analyze::{Notes, Output, locale, run};
use gpumem_analyzer::render::{Colour, Terminal};
use gpumem_capture::text;

#[global_allocator]
static ALLOCATOR: gpumem_budget::Counted = gpumem_budget::Counted;

fn main() -> ExitCode {
    panic::set_hook(Box::new(tell_of_panic));
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
    // The hook has printed the line.
    let done = panic::catch_unwind(AssertUnwindSafe(|| run(&arguments, &mut output)));
    ExitCode::from(done.unwrap_or(1))
}

/// One line for an error of our own, in place of Rust's. What a capture chose may be in it.
fn tell_of_panic(panic: &PanicHookInfo<'_>) {
    let place = panic
        .location()
        .map(ToString::to_string)
        .unwrap_or_default();
    let payload = panic.payload();
    let owned = payload.downcast_ref::<String>().map(String::as_str);
    let what = owned.or_else(|| payload.downcast_ref::<&str>().copied());
    let what = what.unwrap_or("an error");
    Notes(&mut io::stderr()).say(format_args!(
        "an error in gpumem-analyze ({place}: {}): no result. Report it with the output of `gpumem-analyze check`",
        text::clean(what)
    ));
}
