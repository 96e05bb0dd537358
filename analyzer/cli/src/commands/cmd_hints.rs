//! `gpumem-analyze hints`.

use std::path::PathBuf;

use gpumem_analyzer::ask::SecondPass;
use gpumem_analyzer::render::hints_text;
use gpumem_analyzer::replay::Query;
use gpumem_analyzer::views::{Asked, HintWatch, Hints};

use super::exit::Exit;
use super::output::Output;
use super::read::{Opened, replays_of};
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
    let mut capture = Opened::open(&args.file)?;
    let session = capture.read_with(Query::keeping_peaks(), &mut |replay, record, effect| {
        watch.observe(replay, record, effect);
    })?;
    watch.finish();
    let second = SecondPass::after(&session)
        .ledgers(Asked::default())
        .cause(session.replay.main_failure());
    let later = capture.read_later(second, replays.as_ref())?;
    let (ledgers, cause) = (later.ledgers.concat(), later.cause);
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
