//! What a view found, in the form that was asked for.

use gpumem_analyzer::render::{Source, Terminal, caveats};
use gpumem_analyzer::session::Session;
use serde::Serialize;

use super::exit::say_caveats;
use super::output::Output;
use crate::args::Format;

/// Prints what was found as JSON, and on stderr what the capture lacks and what is estimated; or as text, with that above it.
pub fn print(
    output: &mut Output<'_>,
    session: &Session,
    format: Format,
    found: &impl Serialize,
    text: impl FnOnce(&mut Source, Terminal) -> String,
) -> anyhow::Result<()> {
    match format {
        Format::Json => {
            say_caveats(session);
            output.json(session.account.sampling, found)
        }
        Format::Text => told(output, session, text),
    }
}

/// The same of a list of objects.
pub fn print_rows<T: Serialize>(
    output: &mut Output<'_>,
    session: &Session,
    format: Format,
    rows: &[T],
    text: impl FnOnce(&mut Source, Terminal) -> String,
) -> anyhow::Result<()> {
    match format {
        Format::Json => {
            say_caveats(session);
            output.json_rows(session.account.sampling, rows)
        }
        Format::Text => told(output, session, text),
    }
}

fn told(
    output: &mut Output<'_>,
    session: &Session,
    text: impl FnOnce(&mut Source, Terminal) -> String,
) -> anyhow::Result<()> {
    let mut source = Source::new(&session.replay.names, session.header.started_wall_ns);
    let caveats = caveats(&session.account, output.terminal);
    output.text(&(caveats + &text(&mut source, output.terminal)))
}
