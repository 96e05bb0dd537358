//! `gpumem-analyze threads`.

use std::path::PathBuf;

use gpumem_analyzer::render::threads_text;
use gpumem_analyzer::replay::Query;
use gpumem_analyzer::views::{BlockEvents, ThreadWatch};

use super::exit::Exit;
use super::output::Output;
use super::read::{read_for_blocks, read_with};
use super::view::{Of, print};
use crate::args::Format;
use crate::selection::Selection;

/// `threads`.
#[derive(clap::Args, Debug)]
pub struct Args {
    /// Which figures.
    #[command(flatten)]
    pub selection: Selection,
    /// Text or JSON
    #[arg(long, value_enum, default_value_t)]
    pub format: Format,
    /// The capture
    pub file: PathBuf,
}

/// Runs it. The capture is read twice, because the level and all names must be known first.
pub fn run(args: &Args, output: &mut Output<'_>) -> anyhow::Result<Exit> {
    let part = &args.selection.part;
    let file = &part.capture(&args.file);
    let query = Query::from(args.selection.at);
    let (first, level) = read_for_blocks(file, query, part)?;
    output.notes.bounded(&first, "allocations and frees");
    let sizes = part.size.unwrap_or_default();
    let block_events = BlockEvents::new(&first.replay, level, part.select_of_events()?, sizes);
    let mut watch = ThreadWatch::new(block_events, args.selection.at);
    read_with(file, query, &mut |replay, record, effect| {
        watch.observe(replay, record, effect);
    })?;
    let found = watch.threads();
    let of = Of {
        file,
        session: &first,
    };
    print(output, of, args.format, &found, |_, terminal| {
        threads_text(level, &found, &args.selection.said(), terminal)
    })?;
    Ok(Exit::of(&first))
}
