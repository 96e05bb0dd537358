//! `gpumem-analyze report --hints`.

use std::path::Path;

use gpumem_analyzer::ask::SecondPass;
use gpumem_analyzer::render::hints_text;
use gpumem_analyzer::replay::Query;
use gpumem_analyzer::views::{Asked, HintWatch, Hints};

use super::exit::Exit;
use super::output::Output;
use super::read::{Opened, replays_of};
use super::view::{Of, print};
use crate::args::Format;

/// Runs it.
pub fn run(
    file: &Path,
    whatif: Option<&Path>,
    format: Format,
    output: &mut Output<'_>,
) -> anyhow::Result<Exit> {
    let replays = whatif.map(replays_of).transpose()?;
    let mut watch = HintWatch::default();
    let mut capture = Opened::open(file)?;
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
        file,
        session: &session,
    };
    print(output, of, format, &hints.hints, |source, terminal| {
        let several = ledgers.len() > 1;
        let told = hints_text(&hints, several, &session.replay.names, source, terminal);
        match told.is_empty() {
            true => "No hints for this capture.\n".into(),
            false => told,
        }
    })?;
    Ok(Exit::of(&session))
}
