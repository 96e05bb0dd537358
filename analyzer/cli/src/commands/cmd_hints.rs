//! `gpumem-analyze hints`.

use std::path::PathBuf;

use gpumem_analyzer::render::hints_text;
use gpumem_analyzer::replay::Query;
use gpumem_analyzer::views::{Asked, HintWatch, Hints};

use super::exit::Exit;
use super::output::Output;
use super::read::{cause_of, ledgers, read_with, replays_of};
use super::view::{Of, print};
use crate::args::Format;

/// `hints`.
#[derive(clap::Args, Debug)]
pub struct Args {
    /// Replays of this capture under other settings of the allocator, as `gpumem whatif --format json` prints them
    #[arg(long, value_name = "FILE")]
    pub whatif: Option<PathBuf>,
    /// Text or JSON
    #[arg(long, value_enum, default_value_t)]
    pub format: Format,
    /// The capture
    pub file: PathBuf,
}

/// Runs it.
pub fn run(args: &Args, output: &mut Output<'_>) -> anyhow::Result<Exit> {
    let replays = args.whatif.as_deref().map(replays_of).transpose()?;
    let mut watch = HintWatch::default();
    let session = read_with(
        &args.file,
        Query::keeping_peaks(),
        &mut |replay, record, effect| {
            watch.observe(replay, record, effect);
        },
    )?;
    watch.finish();
    let ledgers = ledgers(&args.file, &session, Asked::default())?;
    let cause = match session.replay.main_failure() {
        Some(main) => Some(cause_of(&args.file, &session, main, replays.as_ref())?),
        None => None,
    };
    let hints = Hints::of(&session, cause.as_ref(), &ledgers, &watch, replays.as_ref());
    let of = Of {
        file: &args.file,
        session: &session,
    };
    print(output, of, args.format, &hints.hints, |source, terminal| {
        let several = ledgers.len() > 1;
        let told = hints_text(&hints, several, &session.replay.names, source, terminal);
        match told.is_empty() {
            true => "No hints for this capture.\n".into(),
            false => told,
        }
    })?;
    Ok(Exit::of(&session))
}
