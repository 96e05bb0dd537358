//! Hints for using less memory, each with its evidence and its bytes.
//!
//! A hint requires evidence in the capture: lines, blocks and calls that the other views also show. Unless its kind
//! has another
//! threshold, its bytes must be at least [`NOTABLE`] percent of the device's peak.

mod at_peak;
mod figures;
mod frees;
mod growing;
mod hint;
mod watch;

use std::collections::BTreeSet;

use gpumem_capture::{DeviceOrdinal, Level};
use gpumem_judge::Replays;
use schemars::JsonSchema;
use serde::Serialize;

use super::cause::{Cause, CauseKind, ReplaysOfRun};
use super::ledger::{Kind, Ledger};
use crate::account::{many, place};
use crate::replay::Replay;
use crate::session::Session;
use hint::{NOTABLE, is_notable};

pub(super) use figures::is_in_graph;

pub use hint::{Evidence, Hint, HintKind};
pub use watch::HintWatch;

/// The least share of the card that other processes hold for a hint, in percent.
const OTHERS: u64 = 5;
/// The least difference between the peaks of devices for a hint, in percent of the largest peak.
const UNEVEN: u64 = 20;

/// All hints of a capture: the cause of its failed allocation first, if there is one, then the others by bytes, the
/// largest first.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Hints {
    /// The hints, in this order; empty if the capture has no evidence for any.
    pub hints: Vec<Hint>,
}

impl Hints {
    /// The hints of a capture: for the cause of its failure, if any; for the peaks of its devices, whose ledgers are
    /// `ledgers`; and for the course of the run. `replays`: what replays of the run under other settings gave.
    pub fn of(
        session: &Session,
        cause: Option<&Cause>,
        ledgers: &[Ledger],
        watch: &HintWatch,
        replays: Option<&ReplaysOfRun>,
    ) -> Self {
        let mut hints = Vec::new();
        for ledger in ledgers {
            let device = DeviceOrdinal(ledger.device);
            hints.extend(at_peak::hints(&session.replay, device, watch));
            let replays = replays.and_then(|of| of.on(device));
            hints.extend(cached(ledger, replays.as_ref()));
            hints.extend(emptied(&session.replay, device, watch));
            hints.extend(others(ledger));
        }
        hints.extend(imbalance(session, ledgers));
        if session.replay.main_failure().is_some() {
            // The cause of the failure says what rounds keep.
            hints.retain(|hint| !matches!(hint.kind, HintKind::KeptGraphs | HintKind::Growing));
            if cause.is_some_and(keeps_optimizers) {
                hints.retain(|hint| hint.kind != HintKind::OptimizerState);
            }
        }
        hints.sort_by(|a, b| (b.bytes, a.kind, a.device).cmp(&(a.bytes, b.kind, b.device)));
        let hints = cause.map(failed).into_iter().chain(hints).collect();
        Self { hints }
    }

    /// The same for a surface that shows the cause of the failure itself.
    pub fn beside_cause(mut self) -> Self {
        self.hints.retain(|hint| hint.kind != HintKind::OutOfMemory);
        self
    }
}

/// Whether the cause is that earlier optimizers are kept: their state needs no smaller optimizer.
fn keeps_optimizers(cause: &Cause) -> bool {
    let rows = cause.holders.iter().flat_map(|of| &of.rows);
    let states = rows.filter_map(|of| Some(of.text.split_once(".state[")?.0));
    let optimizers: BTreeSet<&str> = states.collect();
    let has_several = || optimizers.len() > 1 || optimizers.iter().any(|of| of.contains('…'));
    cause.kind == CauseKind::EarlierModels || cause.kind == CauseKind::Held && has_several()
}

/// Returns the hint for the cause of a failure.
fn failed(cause: &Cause) -> Hint {
    Hint {
        kind: HintKind::OutOfMemory,
        device: cause.device,
        bytes: cause.bytes,
        what: format!("out of memory: {}", cause.statement()),
        advice: cause.advice.clone().unwrap_or_default(),
        lines: Vec::new(),
        holder: None,
    }
}

/// Returns the hint for memory that PyTorch's pool freed and allocated again: after a refusal of the driver, or
/// because the program requested it.
fn emptied(replay: &Replay, device: DeviceOrdinal, watch: &HintWatch) -> Option<Hint> {
    let emptied = watch.hint(device);
    let retries = replay.failures.answered_on(device);
    if retries == 0 {
        return emptied;
    }
    Some(Hint {
        kind: HintKind::Retries,
        device: device.0,
        bytes: emptied.map_or(0, |hint| hint.bytes),
        what: format!(
            "{} by PyTorch's allocator: the driver refused the request, PyTorch freed its cache, and the request then succeeded",
            many(retries, "retry", "retries")
        ),
        advice: "each retry waits for the device and calls the driver again; gpumem whatif shows whether other settings of the allocator avoid them"
            .into(),
        lines: Vec::new(),
        holder: None,
    })
}

/// Returns the hint for unallocated memory of PyTorch's pool at the peak.
fn cached(ledger: &Ledger, replays: Option<&Replays>) -> Option<Hint> {
    let pool = ledger.pool.as_ref()?;
    if !is_notable(pool.cached_bytes, pool.reserved_bytes, 2 * NOTABLE) {
        return None;
    }
    let largest = crate::units::bytes(pool.largest_free_block_bytes);
    let cached = crate::units::bytes(pool.cached_bytes);
    Some(Hint {
        kind: HintKind::CachedUnused,
        device: ledger.device,
        bytes: pool.cached_bytes,
        what: format!(
            "{cached} of PyTorch's pool was unallocated at the peak, the largest free block {largest}"
        ),
        advice: other_settings(replays)
            + "gpumem-analyze ledger --segments shows the lines that keep the rest",
        lines: Vec::new(),
        holder: None,
    })
}

/// What other settings of the allocator would have done. About a run that failed, its cause says it.
fn other_settings(replays: Option<&Replays>) -> String {
    let Some(replays) = replays else {
        return "gpumem whatif shows whether other settings of the allocator need less; ".into();
    };
    let doubt = match replays.is_exact {
        true => "",
        false => "; not exact: gpumem whatif lists why",
    };
    let bytes = crate::units::bytes;
    match replays.leaner() {
        _ if replays.shows_the_failure() => String::new(),
        Some(leaner) => format!(
            "set {} (replayed: {} instead of {} reserved at the peak{doubt}); ",
            leaner.assignment(),
            bytes(leaner.reserved),
            bytes(replays.recorded.reserved)
        ),
        None => format!(
            "of {} of the allocator none reserves less in a replay{doubt}; ",
            many(
                replays.others.len() as u64,
                "other setting",
                "other settings"
            )
        ),
    }
}

/// Returns the hint for other processes on the card.
fn others(ledger: &Ledger) -> Option<Hint> {
    let row = ledger
        .rows
        .iter()
        .find(|row| row.kind == Kind::OtherProcesses);
    let bytes = u64::try_from(row?.bytes).ok()?;
    if !is_notable(bytes, ledger.total_bytes?, OTHERS) {
        return None;
    }
    Some(Hint {
        kind: HintKind::OtherProcesses,
        device: ledger.device,
        bytes,
        what: format!(
            "other processes held {} of this card at the peak",
            crate::units::bytes(bytes)
        ),
        advice: "nvidia-smi lists them; contexts of other ranks on one card come from a missing torch.cuda.set_device(local_rank)"
            .into(),
        lines: Vec::new(),
        holder: None,
    })
}

/// Returns the hint for devices with unequal peaks.
fn imbalance(session: &Session, ledgers: &[Ledger]) -> Option<Hint> {
    let held = ledgers.iter().filter_map(|ledger| {
        let device = DeviceOrdinal(ledger.device);
        let peak = |level| session.replay.counters(device, level).peak;
        let most = peak(Level::TENSOR).max(peak(Level::DRIVER));
        (most > 0).then_some((most, device))
    });
    let mut held: Vec<(u64, DeviceOrdinal)> = held.collect();
    held.sort_unstable_by_key(|(bytes, device)| (*bytes, *device));
    let ((least, idle), (most, busy)) = (*held.first()?, *held.last()?);
    if held.len() < 2 || !is_notable(most - least, most, UNEVEN) {
        return None;
    }
    let bytes = crate::units::bytes;
    Some(Hint {
        kind: HintKind::Imbalance,
        device: busy.0,
        bytes: most - least,
        what: format!(
            "{} held {} at its peak, {} {}",
            place(busy),
            bytes(most),
            place(idle),
            bytes(least)
        ),
        advice: "the fullest card sets the limit: move layers, or a larger part of the batch; gpumem-analyze lines shows what each card holds"
            .into(),
        lines: Vec::new(),
        holder: None,
    })
}
