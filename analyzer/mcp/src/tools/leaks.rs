//! `leaks`: memory that stays live from step to step, or from round to round of a loop.

use gpumem_analyzer::ask::{Wanted, survivors};
use gpumem_analyzer::replay::At;
use gpumem_analyzer::views::{LEAST_STEPS, Select, WARM_UP_STEPS};
use gpumem_capture::DeviceOrdinal;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;

use crate::account::{facts_of_rows, is_settled};
use crate::context::Context;
use crate::found::{Found, row};
use crate::refusal::{Refusal, refused};
use crate::selection::{LevelName, Moment};
use crate::sessions::Several;

/// Arguments.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Args {
    /// The capture, as captures names it
    capture: String,
    /// When: end, oom, `step 3`, `event 12345` or a time; by default the end of the last step, or of
    /// the last round of the program's loop
    #[serde(default)]
    at: Option<Moment>,
    /// Which level; by default tensors, or the driver's if there are no tensors
    #[serde(default)]
    level: Option<LevelName>,
    /// Count a block as growth or cache only if it stayed live over the ends of at least this many
    /// steps (default 3)
    #[serde(default)]
    #[schemars(range(min = 1))]
    steps: Option<u64>,
    /// The warm-up ends with this step (default 1)
    #[serde(default)]
    warm_up: Option<u64>,
    /// Only the GPU with this ordinal
    #[serde(default)]
    device: Option<u8>,
}

/// The lines, those that grow first.
///
/// # Errors
/// The capture cannot be read, or does not have the requested point in time.
pub fn answer(context: &mut Context, args: Args) -> Result<Found, Refusal> {
    let capture = context.capture(&args.capture)?;
    let at = match args.at.map(|moment| moment.0) {
        Some(At::Peak) => {
            return Err(refused!(
                "at peak: leaks needs end, an event, a time or a step; use lines for the peak"
            ));
        }
        at => at,
    };
    let wanted = Wanted {
        level: args.level.map(Into::into),
        select: Select {
            device: args.device.map(DeviceOrdinal),
            ..Select::default()
        },
        ..Wanted::default()
    };
    let ages = (
        args.steps.unwrap_or(LEAST_STEPS).max(1),
        args.warm_up.unwrap_or(WARM_UP_STEPS),
    );
    let (session, survivors, when) = survivors(&mut Several::open(&capture)?, &wanted, at, ages)?;
    let leaks = survivors.leaks(&session.replay);
    let growing = leaks.rows.iter().find(|row| row.growth().is_some());
    let place = growing.and_then(|row| row.place.file.as_ref().zip(row.place.line));
    let found = Found::settled(is_settled(&session))
        .with("capture", capture.name.clone())
        .with("level", leaks.level.to_string())
        .with("at", when)
        .with("steps_ended", leaks.steps)
        .with_any("round", leaks.round.as_ref().map(row))
        .with("least_steps", leaks.least_steps)
        .with("warm_up_steps", leaks.warm_up_steps)
        .with_bytes("bytes", "size", leaks.bytes)
        .with_any("holder", leaks.holder.as_ref().map(row))
        .with(
            "account",
            facts_of_rows(&session, &[(leaks.level, &leaks.mismatches)]),
        )
        .with("total_rows", leaks.rows.len())
        .with_rows(leaks.rows.iter().map(row));
    Ok(match place {
        Some((file, line)) => found.ask(
            "source",
            json!({"capture": capture.name, "file": file, "line": line}),
        ),
        None => found,
    })
}
