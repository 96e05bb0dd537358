//! `diff`: the differences between two captures.

use gpumem_analyzer::replay::Query;
use gpumem_analyzer::units::signed;
use gpumem_analyzer::views::{
    ByStack, Diff, DiffRow, Lines, MatchKey, PoolDiff, Select, at, level_or_default,
};
use gpumem_capture::DeviceOrdinal;
use schemars::JsonSchema;
use serde::Deserialize;

use crate::account::{facts_of_rows, is_settled};
use crate::context::Context;
use crate::found::{Found, row, value};
use crate::refusal::Refusal;
use crate::selection::{LevelName, Moment};

/// How lines of the two are put beside each other.
#[derive(Clone, Copy, Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum By {
    /// File, line and function
    #[default]
    Line,
    /// File and function, for scripts whose lines moved
    Function,
}

/// Arguments.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Args {
    /// The capture that is compared with
    before: String,
    /// The capture that is compared; may be the same one, at another moment
    after: String,
    /// The moment in the first, and in the second unless `to` says otherwise: peak (default), end, oom, `step 3`, `event 12345` or a time
    #[serde(default)]
    at: Moment,
    /// The moment in the second, if it is another
    #[serde(default)]
    to: Option<Moment>,
    /// Which level; by default tensors, or the driver's if there are no tensors
    #[serde(default)]
    level: Option<LevelName>,
    /// How lines are matched: line (default), or function for scripts whose lines moved
    #[serde(default)]
    by: By,
    /// Only the GPU with this ordinal
    #[serde(default)]
    device: Option<u8>,
}

/// The rows that differ, the largest change first.
///
/// # Errors
/// A capture cannot be read, or does not have the requested point in time.
pub fn answer(context: &mut Context, args: Args) -> Result<Found, Refusal> {
    let device = args.device.map(DeviceOrdinal);
    let select = Select {
        device,
        ..Select::default()
    };
    let captures = [
        context.capture(&args.before)?,
        context.capture(&args.after)?,
    ];
    let moments = [args.at, args.to.unwrap_or(args.at)];
    let before = context
        .sessions
        .read(&captures[0], Query::from(moments[0].0))?;
    let after = context
        .sessions
        .read(&captures[1], Query::from(moments[1].0))?;
    let level = level_or_default(args.level.map(Into::into), &before.replay);
    let [lines_before, lines_after] = [&before, &after].map(|session| {
        let held = ByStack::at(&session.replay, level, session.query.moment, &select);
        Lines::of(&session.replay, &held)
    });
    let key = match args.by {
        By::Line => MatchKey::Line,
        By::Function => MatchKey::Function,
    };
    let diff = Diff::of(
        (&lines_before, &before.replay.names),
        (&lines_after, &after.replay.names),
        key,
    );
    let pools = PoolDiff::all(&before.replay, &after.replay, device);
    let is_alike = |row: &&DiffRow| row.change_bytes == 0 && row.before_blocks == row.after_blocks;
    let (alike, differ): (Vec<_>, Vec<_>) = diff.rows.iter().partition(is_alike);
    let alike_bytes: u64 = alike.iter().map(|row| row.before_bytes).sum();
    let [account_before, account_after] = [(&before, &lines_before), (&after, &lines_after)]
        .map(|(session, lines)| facts_of_rows(session, &[(level, &lines.mismatches)]));
    let [first, second] = captures.map(|capture| capture.name);
    Ok(Found::settled(is_settled(&before) && is_settled(&after))
        .with("before", first)
        .with("after", second)
        .with("level", level.to_string())
        .with("at", at(before.query.moment))
        .with("to", at(after.query.moment))
        .with_bytes("before_bytes", "before_size", diff.before_bytes)
        .with_bytes("after_bytes", "after_size", diff.after_bytes)
        .with("change_bytes", diff.change_bytes)
        .with("change", signed(diff.change_bytes))
        .with("alike_rows", alike.len())
        .with_bytes("alike_bytes", "alike", alike_bytes)
        .with("pools", value(&pools))
        .with("account_before", account_before)
        .with("account_after", account_after)
        .with("total_rows", differ.len())
        .with_rows(differ.into_iter().map(row)))
}
