//! `gpumem-analyze changes`.

use std::path::PathBuf;

use gpumem_analyzer::render::{change_text, partial};
use gpumem_analyzer::replay::Moment;
use gpumem_analyzer::views::{Change, Changes};

use super::{Exit, Output, level_or_default, read, read_with, say_bounded, say_missing};
use crate::cli::Format;
use crate::which::LevelArg;

/// `changes`.
#[derive(clap::Args, Debug)]
pub struct Args {
    /// Which level; by default tensors, or the driver's where there are none
    #[arg(long, value_enum)]
    pub level: Option<LevelArg>,
    /// Text or JSON
    #[arg(long, value_enum, default_value_t)]
    pub format: Format,
    /// The capture
    pub file: PathBuf,
}

/// Runs it. The capture is read twice, for what is missing has to be said before the first line.
pub fn run(args: &Args, output: &mut Output<'_>) -> anyhow::Result<Exit> {
    let first = read(&args.file, Moment::End)?;
    let level = level_or_default(args.level.map(Into::into), &first.replay);
    let devices = first
        .replay
        .rows
        .keys()
        .filter(|(_, of)| *of == level)
        .count()
        > 1;
    say_bounded(&first, "changes");
    let names = &first.replay.names;
    let terminal = output.terminal;
    let json = args.format == Format::Json;
    if json {
        say_missing(&first);
        output.text("[")?;
    } else {
        output.text(&partial(&first.account, terminal))?;
    }
    let mut failed = None;
    let mut count = 0_u64;
    let mut print = |change: Change| {
        if failed.is_some() {
            return;
        }
        let done = if json {
            let separator = if count == 0 { "\n" } else { ",\n" };
            serde_json::to_string(&change)
                .map_err(anyhow::Error::from)
                .and_then(|text| output.text(&format!("{separator}{text}")))
        } else {
            output.text(&change_text(
                &change,
                1,
                usize::MAX,
                devices,
                names,
                terminal,
            ))
        };
        failed = done.err();
        count += 1;
    };
    let mut changes = Changes::new(level, first.header.pid, &mut print);
    read_with(&args.file, Moment::End, &mut |replay, record, effect| {
        changes.observe(replay, record, effect);
    })?;
    changes.finish();
    drop(changes);
    if let Some(error) = failed {
        return Err(error);
    }
    if json {
        output.text(if count == 0 { "]\n" } else { "\n]\n" })?;
    } else if count == 0 {
        output.text(&format!("Nothing changed at the {level} level.\n"))?;
    }
    Ok(Exit::of(&first))
}
