//! `summary`: the process, and the memory of each GPU.

use gpumem_analyzer::replay::At;
use gpumem_analyzer::views::{DeviceSummary, LevelSummary, Summary};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::account::{facts, is_settled};
use crate::context::Context;
use crate::found::{Found, row};
use crate::refusal::Refusal;

/// Arguments.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Args {
    /// The capture, as captures names it
    capture: String,
}

/// The process in the head, and a row for each card, level and category.
///
/// # Errors
/// The capture cannot be read.
pub fn answer(context: &mut Context, args: Args) -> Result<Found, Refusal> {
    let capture = context.capture(&args.capture)?;
    let session = context.sessions.read(&capture, At::End.into())?;
    let summary = Summary::of(&session);
    let process = &summary.process;
    let mut rows: Vec<Value> = summary.devices.iter().flat_map(device).collect();
    if let Some(host) = &summary.host_of_no_device {
        rows.push(level(None, "pinned host memory without a GPU", host));
    }
    let said = |what: &str, line: &String| json!({"what": what, "text": line});
    rows.extend(summary.missing.iter().map(|line| said("missing", line)));
    rows.extend(summary.notes.iter().map(|line| said("note", line)));
    let name = capture.name;
    let mut found = Found::settled(is_settled(&session))
        .with("capture", name.clone())
        .with_any("program", process.command.clone())
        .with("pid", process.pid)
        .with_any("host", process.host.clone())
        .with_any("rank", process.rank)
        .with_any("world_size", process.world_size)
        .with_any("python", process.python.clone())
        .with_any("pytorch", process.pytorch.as_ref().map(row))
        .with_any("driver_version", process.driver_version.clone())
        .with("started_unix_ns", process.started_unix_ns)
        .with("duration_ns", process.duration_ns)
        .with("events", summary.events)
        .with("steps", summary.steps)
        .with("failures_for_want_of_memory", summary.out_of_memory_events)
        .with("account", facts(&session))
        .with("notes", summary.notes.len())
        .with("total_rows", rows.len())
        .with_rows(rows);
    if summary.out_of_memory_events > 0 {
        found = found.ask("why", json!({"capture": name}));
    }
    if summary.steps > 1 {
        found = found.ask("leaks", json!({"capture": name}));
    }
    Ok(found.ask("lines", json!({"capture": name, "at": "peak"})))
}

fn device(of: &DeviceSummary) -> Vec<Value> {
    let ordinal = Some(of.ordinal);
    let mut card = row(&json!({
        "device": of.ordinal,
        "what": "card",
        "name": of.name,
        "uuid": of.uuid,
        "total_bytes": of.total_bytes,
        "limit_bytes": of.limit_bytes,
        "nvml_process_bytes": of.nvml_process_bytes,
        "unexplained_bytes": of.unexplained_bytes,
    }));
    if let Some(peak) = &of.peak {
        card["held_most_at"] = row(peak);
    }
    let mut rows = vec![card, level(ordinal, "tensors", &of.tensor)];
    rows.extend(of.categories.iter().map(|category| {
        let mut row = row(category);
        row["device"] = of.ordinal.into();
        row["what"] = "tensors of a category".into();
        row
    }));
    let figures = [
        (
            "reserved by PyTorch",
            Some(of.reserved.live_bytes),
            Some(of.reserved.peak_bytes),
        ),
        ("physical", of.physical.live_bytes, of.physical.peak_bytes),
    ];
    rows.push(level(ordinal, "driver", &of.driver));
    rows.push(level(ordinal, "pinned host memory", &of.host));
    rows.extend(figures.into_iter().map(|(what, live, peak)| {
        row(&json!({"device": of.ordinal, "what": what, "live_bytes": live, "peak_bytes": peak}))
    }));
    rows
}

fn level(device: Option<u8>, what: &str, of: &LevelSummary) -> Value {
    let mut row = row(of);
    row["what"] = what.into();
    if let Some(device) = device {
        row["device"] = device.into();
    }
    row
}
