//! Prints the result of a view in the requested format.

use std::path::Path;

use gpumem_analyzer::envelope::{Capture, Captures, Formed};
use gpumem_analyzer::render::{Source, Terminal, caveats};
use gpumem_analyzer::session::Session;
use serde::Serialize;

use super::output::Output;
use crate::args::Format;

/// A capture that was read, for the messages about it.
#[derive(Clone, Copy)]
pub struct Of<'a> {
    /// Its file.
    pub file: &'a Path,
    /// What was read.
    pub session: &'a Session,
}

impl Of<'_> {
    /// The same, for JSON.
    pub fn captures(self) -> Captures {
        Captures::One(Box::new(Capture::of(self.file, self.session)))
    }
}

/// Prints the result as JSON, and on stderr what the capture lacks and what is estimated; or as text below these
/// messages.
pub fn print<V: Formed + Serialize>(
    output: &mut Output<'_>,
    of: Of<'_>,
    format: Format,
    found: &V,
    text: impl FnOnce(&mut Source, Terminal) -> String,
) -> anyhow::Result<()> {
    let session = of.session;
    match format {
        Format::Json => {
            output.notes.caveats(session);
            output.json(&of.captures(), found)
        }
        Format::Text => {
            let mut source = Source::new(&session.replay.names, &session.header);
            let caveats = caveats(&session.account, output.terminal);
            output.text(&(caveats + &text(&mut source, output.terminal)))?;
            output.about_source(&source)
        }
    }
}
