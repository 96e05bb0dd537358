//! `ledger`: the composition of each GPU's memory.

use gpumem_analyzer::ask::SecondPass;
use gpumem_analyzer::replay::{At, Query};
use gpumem_analyzer::views::{Asked, By, Ledger, LedgerAt, at};
use gpumem_capture::DeviceOrdinal;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::account::{facts, is_settled};
use crate::context::Context;
use crate::found::{Found, row};
use crate::refusal::{Refusal, refused};
use crate::selection::Moment;
use crate::sessions::later;

/// How rows are put together.
#[derive(Clone, Copy, Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ByName {
    /// By what they are
    #[default]
    Kind,
    /// By the library that the memory belongs to
    Owner,
    /// By the line that led to it
    Line,
}

/// Arguments.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Args {
    /// The capture, as captures names it
    capture: String,
    /// When: peak (default: each GPU's own), end, oom (the failure), `step 3`, `event 12345`, or a time such as 1.5s
    #[serde(default)]
    at: Moment,
    /// How rows are put together: kind (default), owner (library) or line
    #[serde(default)]
    by: ByName,
    /// Only the GPU with this ordinal
    #[serde(default)]
    device: Option<u8>,
}

/// For each card a row with its figures, then its parts, which add up to it.
///
/// # Errors
/// The capture cannot be read, or does not have the requested point in time or card.
pub fn answer(context: &mut Context, args: Args) -> Result<Found, Refusal> {
    let capture = context.capture(&args.capture)?;
    let query = Query {
        moment: args.at.0,
        peaks: args.at.0 == At::Peak,
        ..Query::default()
    };
    let session = context.sessions.read(&capture, query)?;
    let moment = match (args.at.0, session.replay.until()) {
        (_, Some(seq)) => LedgerAt::At(seq),
        (At::Peak, None) => LedgerAt::Peak,
        (_, None) => LedgerAt::End,
    };
    let asked = Asked {
        at: moment,
        by: match args.by {
            ByName::Kind => By::Kind,
            ByName::Owner => By::Owner,
            ByName::Line => By::Line,
        },
        device: args.device.map(DeviceOrdinal),
    };
    let second = SecondPass::after(&session).ledgers(asked);
    let ledgers = later(&capture, &session, second)?.ledgers.concat();
    if let (true, Some(device)) = (ledgers.is_empty(), args.device) {
        return Err(refused!(
            "{}: the capture has no GPU {device}: summary lists its GPUs",
            capture.name
        ));
    }
    let rows: Vec<Value> = ledgers.iter().flat_map(parts).collect();
    Ok(Found::settled(is_settled(&session))
        .with("capture", capture.name)
        .with("at", at(session.query.moment))
        .with("account", facts(&session))
        .with("total_rows", rows.len())
        .with_rows(rows))
}

fn parts(ledger: &Ledger) -> Vec<Value> {
    let mut card = row(&json!({
        "device": ledger.device,
        "kind": "card",
        "event": ledger.seq,
        "time_ns": ledger.time_ns,
        "step": ledger.when.step,
        "phase": ledger.when.phase,
        "bytes": ledger.bytes,
        "total_bytes": ledger.total_bytes,
        "driver_bytes": ledger.driver_bytes,
        "physical_bytes": ledger.physical_bytes,
        "nvml_process_bytes": ledger.nvml_process_bytes,
        "unexplained_bytes": ledger.unexplained_bytes,
    }));
    if let Some(pool) = &ledger.pool {
        let pool = json!({
            "reserved_bytes": pool.reserved_bytes,
            "live_bytes": pool.live_bytes,
            "cached_bytes": pool.cached_bytes,
            "largest_free_block_bytes": pool.largest_free_block_bytes,
            "reclaimable_bytes": pool.reclaimable_bytes,
            "segments": pool.segments.len(),
        });
        card["pytorch_pool"] = pool;
    }
    let parts = ledger.rows.iter().map(|part| {
        let mut row = row(part);
        row["device"] = ledger.device.into();
        row
    });
    [card].into_iter().chain(parts).collect()
}
