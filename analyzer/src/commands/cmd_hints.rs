//! `gpumem-analyze hints`.

use std::path::PathBuf;

use gpumem_analyzer::render::{Source, hints_text, partial};
use gpumem_analyzer::replay::Query;
use gpumem_analyzer::views::{Asked, HintWatch, Hints};

use super::exit::{Exit, say_missing};
use super::output::Output;
use super::read::{ledgers, read_with};
use crate::args::Format;

/// `hints`.
#[derive(clap::Args, Debug)]
pub struct Args {
    /// Text or JSON
    #[arg(long, value_enum, default_value_t)]
    pub format: Format,
    /// The capture
    pub file: PathBuf,
}

/// Runs it.
pub fn run(args: &Args, output: &mut Output<'_>) -> anyhow::Result<Exit> {
    let query = Query {
        peaks: true,
        ..Query::default()
    };
    let mut watch = HintWatch::default();
    let session = read_with(&args.file, query, &mut |replay, record, effect| {
        watch.observe(replay, record, effect);
    })?;
    watch.finish();
    let ledgers = ledgers(&args.file, &session, Asked::default())?;
    let hints = Hints::of(&session, &ledgers, &watch);
    match args.format {
        Format::Json => {
            say_missing(&session);
            output.json(&hints.hints)?;
        }
        Format::Text => {
            let names = &session.replay.names;
            let mut source = Source::new(names, session.header.started_wall_ns);
            let mut text = partial(&session.account, output.terminal);
            let devices = ledgers.len() > 1;
            let told = hints_text(&hints, devices, names, &mut source, output.terminal);
            text.push_str(match told.is_empty() {
                true => "No hints: nothing stands out.\n",
                false => &told,
            });
            output.text(&text)?;
        }
    }
    Ok(Exit::of(&session))
}
