//! `gpumem-analyze temporary`.

use std::path::PathBuf;

use gpumem_analyzer::render::temporary_text;
use gpumem_analyzer::replay::At;
use gpumem_analyzer::views::{BlockEvents, ShortLived};

use super::exit::Exit;
use super::output::Output;
use super::read::{read, read_with};
use super::view::{Of, print};
use crate::args::{Format, ShortLivedArgs};
use crate::selection::Part;

/// `temporary`.
#[derive(clap::Args, Debug)]
pub struct Args {
    /// Which blocks are temporary.
    #[command(flatten)]
    pub short_lived: ShortLivedArgs,
    /// Of what.
    #[command(flatten)]
    pub part: Part,
    /// Text or JSON
    #[arg(long, value_enum, default_value_t)]
    pub format: Format,
    /// The capture
    pub file: PathBuf,
}

/// Runs it. The capture is read twice, because the level and all names must be known first.
pub fn run(args: &Args, output: &mut Output<'_>) -> anyhow::Result<Exit> {
    let file = &args.part.capture(&args.file);
    let first = read(file, At::End)?;
    output.notes.bounded(&first, "blocks freed");
    let (level, sizes) = (args.part.level(&first)?, args.part.size.unwrap_or_default());
    let block_events = BlockEvents::new(&first.replay, level, args.part.select_of_events()?, sizes);
    let mut short_lived = ShortLived::new(args.short_lived.within(), block_events);
    let session = read_with(file, At::End, &mut |replay, record, effect| {
        short_lived.observe(replay, record, effect);
    })?;
    let found = short_lived.lines(&session.replay);
    let of = Of {
        file,
        session: &first,
    };
    print(output, of, args.format, &found, |source, terminal| {
        let (within, said) = (args.short_lived.within(), args.part.said());
        temporary_text(&first.replay, &found, within, &said, source, terminal)
    })?;
    Ok(Exit::of(&first))
}
