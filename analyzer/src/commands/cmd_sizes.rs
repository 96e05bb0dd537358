//! `gpumem-analyze sizes`.

use std::path::PathBuf;

use gpumem_analyzer::render::{partial, sizes_text};
use gpumem_analyzer::replay::{At, Query};
use gpumem_analyzer::views::{BlockEvents, Histogram};

use super::exit::{Exit, say_bounded, say_missing};
use super::output::Output;
use super::read::{not_kept, read, read_with};
use crate::args::Format;
use crate::selection::Selection;

/// `sizes`.
#[derive(clap::Args, Debug)]
pub struct Args {
    /// Which figures.
    #[command(flatten)]
    pub selection: Selection,
    /// Each size by itself, and not by powers of two
    #[arg(long)]
    pub exact: bool,
    /// Text or JSON
    #[arg(long, value_enum, default_value_t)]
    pub format: Format,
    /// The capture
    pub file: PathBuf,
}

/// Runs it. The capture is read twice: the level and all names have to be known first.
pub fn run(args: &Args, output: &mut Output<'_>) -> anyhow::Result<Exit> {
    let part = &args.selection.part;
    let file = &part.capture(&args.file);
    let query = Query::from(args.selection.at);
    let first = read(file, query)?;
    let level = part.level(&first);
    if let (At::Peak, Some(restored)) = (args.selection.at, first.replay.restored) {
        let rows = first.replay.levels.iter();
        let mut of_level = rows.filter(|((_, of), _)| *of == level);
        if of_level.any(|(_, row)| row.peak.0 < restored.from) {
            return Err(not_kept(file, &first));
        }
    }
    say_bounded(&first, "allocations");
    let sizes = part.size.unwrap_or_default();
    let block_events = BlockEvents::new(&first.replay, level, part.select(), sizes);
    let mut histogram = Histogram::new(block_events, args.selection.at, args.exact);
    read_with(file, query, &mut |replay, record, effect| {
        histogram.observe(replay, record, effect);
    })?;
    let found = histogram.sizes();
    match args.format {
        Format::Json => {
            say_missing(&first);
            output.json(&found)?;
        }
        Format::Text => {
            let terminal = output.terminal;
            let mut text = partial(&first.account, terminal);
            text.push_str(&sizes_text(level, &found, &args.selection.said(), terminal));
            output.text(&text)?;
        }
    }
    Ok(Exit::of(&first))
}
