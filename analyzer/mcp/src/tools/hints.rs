//! `hints`: possible savings of memory.

use gpumem_analyzer::ask::SecondPass;
use gpumem_analyzer::replay::Query;
use gpumem_analyzer::views::{Asked, HintWatch, Hints};
use schemars::JsonSchema;
use serde::Deserialize;

use crate::account::{facts, is_settled};
use crate::context::Context;
use crate::found::{Found, row};
use crate::refusal::Refusal;
use crate::sessions::{open, unreadable};

/// Arguments.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Args {
    /// The capture, as captures names it
    capture: String,
}

/// The hints, those with the most bytes first.
///
/// # Errors
/// The capture cannot be read.
pub fn answer(context: &mut Context, args: Args) -> Result<Found, Refusal> {
    let capture = context.capture(&args.capture)?;
    let mut watch = HintWatch::default();
    let failed = |error| unreadable(&capture, &error);
    let mut file = open(&capture)?;
    let session = file.read_with(Query::keeping_peaks(), &mut |replay, record, effect| {
        watch.observe(replay, record, effect);
    });
    let session = session.map_err(failed)?;
    watch.finish();
    let second = SecondPass::after(&session)
        .ledgers(Asked::default())
        .cause(session.replay.main_failure());
    let later = second.read(&mut file, None).map_err(failed)?;
    let (ledgers, cause) = (later.ledgers.concat(), later.cause);
    let hints = Hints::of(&session, cause.as_ref(), &ledgers, &watch, None);
    Ok(Found::settled(is_settled(&session))
        .with("capture", capture.name)
        .with("account", facts(&session))
        .with("total_rows", hints.hints.len())
        .with_rows(hints.hints.iter().map(row)))
}
