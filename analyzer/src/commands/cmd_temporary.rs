//! `gpumem-analyze temporary`.

use std::path::PathBuf;

use gpumem_analyzer::render::{Source, partial, temporary_text};
use gpumem_analyzer::replay::Moment;
use gpumem_analyzer::views::{Follow, Passing, Within};
use gpumem_capture::Nanos;

use super::{Exit, Output, read, read_with, say_bounded, say_missing};
use crate::cli::Format;
use crate::which::{Part, decimal};

/// `temporary`.
#[derive(clap::Args, Debug)]
pub struct Args {
    /// How soon.
    #[command(flatten)]
    pub soon: Soon,
    /// Of what.
    #[command(flatten)]
    pub part: Part,
    /// Text or JSON
    #[arg(long, value_enum, default_value_t)]
    pub format: Format,
    /// The capture
    pub file: PathBuf,
}

/// How soon a temporary block is freed.
#[derive(clap::Args, Clone, Copy, Debug)]
pub struct Soon {
    /// A temporary block is freed within this many allocations and frees of its level and GPU: 1 is the next
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..))]
    pub within: u64,
    /// A temporary block is freed within this many milliseconds
    #[arg(long, value_name = "MS", value_parser = millis, conflicts_with = "within")]
    pub within_ms: Option<Nanos>,
}

impl Soon {
    /// The same, as views take it.
    pub fn within(self) -> Within {
        match self.within_ms {
            Some(time) => Within::Time(time),
            None => Within::Events(self.within),
        }
    }
}

fn millis(text: &str) -> Result<Nanos, String> {
    let nanos = decimal(text, 1_000_000).map(Nanos);
    nanos.ok_or_else(|| "expected milliseconds: 5, 0.25".into())
}

/// Runs it. The capture is read twice: the level and all names have to be known first.
pub fn run(args: &Args, output: &mut Output<'_>) -> anyhow::Result<Exit> {
    let file = &args.part.capture(&args.file);
    let first = read(file, Moment::End)?;
    say_bounded(&first, "blocks freed");
    let (level, sizes) = (args.part.level(&first), args.part.size.unwrap_or_default());
    let follow = Follow::new(&first.replay, level, args.part.select(), sizes);
    let mut passing = Passing::new(args.soon.within(), follow);
    let session = read_with(file, Moment::End, &mut |replay, record, effect| {
        passing.observe(replay, record, effect);
    })?;
    let found = passing.lines(&session.replay);
    match args.format {
        Format::Json => {
            say_missing(&first);
            output.json(&found)?;
        }
        Format::Text => {
            let mut source = Source::new(&first.replay.names, first.header.started_wall_ns);
            let terminal = output.terminal;
            let mut text = partial(&first.account, terminal);
            text.push_str(&temporary_text(
                &first.replay,
                &found,
                args.soon.within(),
                &args.part.said(),
                &mut source,
                terminal,
            ));
            output.text(&text)?;
        }
    }
    Ok(Exit::of(&first))
}
