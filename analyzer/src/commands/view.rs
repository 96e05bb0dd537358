//! What a view found, in the form that was asked for.

use gpumem_analyzer::render::{Source, Terminal, partial};
use gpumem_analyzer::session::Session;
use serde::Serialize;

use super::exit::say_missing;
use super::output::Output;
use crate::args::Format;

/// Prints what was found as JSON, and on stderr what the capture lacks; or as text, with that above it.
pub fn print(
    output: &mut Output<'_>,
    session: &Session,
    format: Format,
    found: &impl Serialize,
    text: impl FnOnce(&mut Source, Terminal) -> String,
) -> anyhow::Result<()> {
    match format {
        Format::Json => {
            say_missing(session);
            output.json(found)
        }
        Format::Text => {
            let mut source = Source::new(&session.replay.names, session.header.started_wall_ns);
            let missing = partial(&session.account, output.terminal);
            output.text(&(missing + &text(&mut source, output.terminal)))
        }
    }
}
