//! `gpumem-analyze scopes`.

use std::path::PathBuf;

use gpumem_analyzer::render::scopes_text;
use gpumem_analyzer::replay::Query;
use gpumem_analyzer::views::ScopeWatch;

use super::exit::Exit;
use super::output::Output;
use super::read::read_with;
use super::view::{Of, print};
use crate::args::Format;
use crate::selection::{LevelArg, Part};

/// `scopes`.
#[derive(clap::Args, Debug)]
pub struct Args {
    /// The level. Default: tensor, or driver if the capture has no tensors
    #[arg(long, value_enum)]
    pub level: Option<LevelArg>,
    /// Also list each scope, below the sums by name
    #[arg(long)]
    pub each: bool,
    /// The capture of this rank: report.rankN.bin beside the named file
    #[arg(long, value_name = "N")]
    pub rank: Option<u32>,
    /// Text or JSON
    #[arg(long, value_enum, default_value_t)]
    pub format: Format,
    /// The capture
    pub file: PathBuf,
}

/// Runs it.
pub fn run(args: &Args, output: &mut Output<'_>) -> anyhow::Result<Exit> {
    let part = Part {
        rank: args.rank,
        level: args.level,
        ..Part::default()
    };
    let file = &part.capture(&args.file);
    let mut watch = ScopeWatch::default();
    let session = read_with(file, Query::default(), &mut |replay, record, effect| {
        watch.observe(replay, record, effect);
    })?;
    let scopes = watch.finish(&session.replay);
    let said = [
        (
            scopes.left_out,
            "scopes are only in the sums by name, because at most 10,000 are listed",
        ),
        (
            scopes.marks_left_out,
            "marks are omitted, because at most 10,000 are listed",
        ),
        (
            scopes.without_begin,
            "scopes are omitted, because they began before the capture's first record",
        ),
    ];
    for (number, what) in said.iter().filter(|(number, _)| *number > 0) {
        output.notes.say(format_args!("{number} {what}"));
    }
    let level = part.level(&session)?;
    let of = Of {
        file,
        session: &session,
    };
    print(output, of, args.format, &scopes, |_, terminal| {
        let told = scopes_text(&scopes, level, args.each, terminal);
        match told.is_empty() {
            true => {
                "The capture has no scopes and no marks. Your program makes them with gpumem.scope and gpumem.mark.\n"
                    .into()
            }
            false => told,
        }
    })?;
    Ok(Exit::of(&session))
}
