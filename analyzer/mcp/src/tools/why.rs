//! `why`: why an allocation failed, and the owners of memory then.

use gpumem_analyzer::ask::SecondPass;
use gpumem_analyzer::attribution::owner;
use gpumem_analyzer::replay::{At, OutOfMemory, Query};
use gpumem_analyzer::session::Session;
use gpumem_analyzer::views::{ByStack, Cause, LineRow, Lines, Select};
use gpumem_capture::Level;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::account::{facts, facts_of_rows, is_settled};
use crate::capture::Capture;
use crate::context::Context;
use crate::found::{Found, row};
use crate::refusal::{Refusal, refused};
use crate::sessions::later;

/// Arguments.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Args {
    /// The capture, as captures names it
    capture: String,
    /// Which failure, from 1; by default the last exception, else the last failure
    #[serde(default)]
    #[schemars(range(min = 1))]
    failure: Option<u64>,
}

/// The failure and its cause in the head, and the lines of each level as rows.
///
/// # Errors
/// The capture cannot be read, or has no such failure.
pub fn answer(context: &mut Context, args: Args) -> Result<Found, Refusal> {
    let capture = context.capture(&args.capture)?;
    let first = context.sessions.read(&capture, At::End.into())?;
    let failures = first.replay.failures.all();
    let Some((main, _)) = first.replay.main_failure() else {
        return Ok(none(&capture, &first));
    };
    let number = args.failure.unwrap_or(main);
    let Some((_, failure)) = failures.iter().find(|(at, _)| *at == number) else {
        let numbers = failures
            .iter()
            .take(20)
            .map(|(number, _)| number.to_string());
        return Err(refused!(
            "{}: failure {number} is not in the capture: use one of {}",
            capture.name,
            numbers.collect::<Vec<_>>().join(", ")
        ));
    };
    let query = Query::from(At::Event(failure.seq));
    let session = context.sessions.read(&capture, query)?;
    let second = SecondPass::after(&session).cause(Some((number, *failure)));
    let cause = later(&capture, &session, second)?.cause;
    let levels = [Level::TENSOR, Level::DRIVER, Level::HOST];
    let held = levels.map(|level| held(&session, failure, level));
    let mismatches = held.each_ref().map(|of| (of.level, &of.mismatches[..]));
    let account = facts_of_rows(&session, &mismatches);
    let device = failure.event.device.0;
    let rows: Vec<Value> = held.iter().flat_map(|of| holders(of, device)).collect();
    let found = Found::settled(is_settled(&session))
        .with("capture", capture.name.clone())
        .with("failures", first.replay.failures.count())
        .with("answered_refusals", first.replay.failures.answered())
        .with("failure", described(&session, number, failure))
        .with("cause", cause.as_ref().map(caused))
        .with("account", account)
        .with("total_rows", rows.len())
        .with_rows(rows);
    // The point in time is that of the requested failure.
    let at = format!("event {}", failure.seq.0);
    let line = cause.as_ref().and_then(|cause| cause.line.as_deref());
    let found = match line.and_then(place) {
        Some((file, line)) => found.ask(
            "source",
            json!({"capture": capture.name, "file": file, "line": line, "at": at}),
        ),
        None => found,
    };
    Ok(found.ask(
        "ledger",
        json!({"capture": capture.name, "at": at, "device": device}),
    ))
}

/// The answer if no allocation failed.
fn none(capture: &Capture, session: &Session) -> Found {
    let ended = session.account.ending.word();
    Found::settled(is_settled(session))
        .with("capture", capture.name.clone())
        .with("failures", 0)
        .with("answered_refusals", session.replay.failures.answered())
        .with(
            "said",
            format!("No allocation failed because memory ran out. The process's end: {ended}."),
        )
        .with("account", facts(session))
        .ask("lines", json!({"capture": capture.name, "at": "end"}))
        .ask("hints", json!({"capture": capture.name}))
}

fn described(session: &Session, number: u64, failure: &OutOfMemory) -> Value {
    let (replay, event) = (&session.replay, &failure.event);
    let of = owner(&replay.names, failure.span_context.stacks, event.level);
    row(&json!({
        "number": number,
        "event": failure.seq.0,
        "time_ns": event.time.0,
        "device": event.device.0,
        "level": event.level.to_string(),
        "requested_bytes": event.bytes,
        "line": of.label(&replay.names),
        "exception": failure.is_exception(),
        "refusals": failure.refusals,
        "by_limit": failure.is_by_limit(),
        "limit_bytes": replay.limit_of(event.device),
    }))
}

/// The cause without its owners, which are rows.
fn caused(cause: &Cause) -> Value {
    let mut row = row(cause);
    if let Some(row) = row.as_object_mut() {
        row.remove("owners");
        row.remove("number");
        row.remove("event");
    }
    row
}

/// The lines that held memory of a level then.
fn held(session: &Session, failure: &OutOfMemory, level: Level) -> Lines {
    let moment = At::Event(failure.seq);
    let held = ByStack::at(&session.replay, level, moment, &Select::default());
    Lines::of(&session.replay, &held)
}

/// The lines of the device without memory; pinned memory belongs to no device.
fn holders(lines: &Lines, device: u8) -> impl Iterator<Item = Value> {
    let level = lines.level;
    let is_wanted = move |row: &&LineRow| level == Level::HOST || row.device == Some(device);
    lines.rows.iter().filter(is_wanted).map(move |of| {
        let mut row = row(of);
        row["level"] = level.to_string().into();
        row
    })
}

/// The file and line of a label such as `/a/train.py:83 (backward: MulBackward0)`.
fn place(label: &str) -> Option<(&str, u32)> {
    let (before, rest) = label
        .rsplit_once(':')
        .filter(|(_, rest)| rest.starts_with(|c: char| c.is_ascii_digit()))
        .or_else(|| {
            let label = label.split(" (").next()?;
            label.rsplit_once(':')
        })?;
    let digits = rest.split(|c: char| !c.is_ascii_digit()).next()?;
    Some((before, digits.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_label_has_a_file_and_a_line() {
        assert_eq!(place("/a b/train.py:83"), Some(("/a b/train.py", 83)));
        assert_eq!(
            place("train.py:7 (backward: MulBackward0)"),
            Some(("train.py", 7))
        );
        assert_eq!(place("no Python line"), None);
    }
}
