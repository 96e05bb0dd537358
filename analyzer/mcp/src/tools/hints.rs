//! `hints`: possible savings of memory.

use gpumem_analyzer::replay::Query;
use gpumem_analyzer::views::{Asked, Cause, HintWatch, Hints, Ledger};
use schemars::JsonSchema;
use serde::Deserialize;

use crate::account::{facts, is_settled};
use crate::context::Context;
use crate::found::{Found, row};
use crate::refusal::Refusal;
use crate::sessions::{unreadable, watched};

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
    let session = watched(
        &capture,
        Query::keeping_peaks(),
        &mut |replay, record, effect| {
            watch.observe(replay, record, effect);
        },
    )?;
    watch.finish();
    let failed = |error| unreadable(&capture, &error);
    let ledgers =
        Ledger::read(&capture.path, &session, Asked::default(), &mut |_| {}).map_err(failed)?;
    let cause = match session.replay.main_failure() {
        Some(main) => {
            Some(Cause::read(&capture.path, &session, main, None, &mut |_| {}).map_err(failed)?)
        }
        None => None,
    };
    let hints = Hints::of(&session, cause.as_ref(), &ledgers, &watch, None);
    Ok(Found::settled(is_settled(&session))
        .with("capture", capture.name)
        .with("account", facts(&session))
        .with("total_rows", hints.hints.len())
        .with_rows(hints.hints.iter().map(row)))
}
