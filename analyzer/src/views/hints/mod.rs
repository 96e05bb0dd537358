//! What could be done about the memory: each hint with its evidence and its bytes.
//!
//! A hint is given only where the capture bears it out: lines, blocks, calls that can be looked up in the other
//! views. Below [`NOTABLE`] of the device's peak nothing is said.

mod frees;
mod growing;
mod held;
mod watch;

use gpumem_capture::{DeviceOrdinal, Level};
use serde::Serialize;

use super::ledger::{Kind, Ledger, Place};
use crate::attribution::Owner;
use crate::replay::place;
use crate::session::Session;

pub use watch::HintWatch;

/// Percent of a device's peak from which on something is worth a hint.
pub const NOTABLE: u64 = 5;
/// Lines named as evidence.
const LINES: usize = 5;
/// Percent of the card that other processes may hold unnoticed.
const OTHERS: u64 = 5;
/// Percent by which devices' peaks may differ.
const UNEVEN: u64 = 20;

/// What a hint is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum HintKind {
    /// State that an optimizer allocated and keeps.
    OptimizerState,
    /// Activation functions whose results stand beside their inputs.
    NotInPlace,
    /// Autograd's graph was built, and never used.
    NoGrad,
    /// A graph was built in a program that trains, and no backward came for it.
    NoBackward,
    /// What forwards allocated stays from step to step, and more of it each time.
    KeptGraphs,
    /// Other lines that hold more after each step.
    Growing,
    /// Workspaces of cuBLAS.
    Workspaces,
    /// Short-lived blocks whose size changes.
    Spikes,
    /// Memory that PyTorch's pool held free at the peak.
    CachedUnused,
    /// PyTorch's pool gave memory back and took it again.
    CacheEmptied,
    /// Devices that held unequally much.
    Imbalance,
    /// Other processes on the card.
    OtherProcesses,
}

/// A line that bears a hint out.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Evidence {
    /// The line.
    #[serde(flatten)]
    pub place: Place,
    /// What of the hint's bytes is its.
    pub bytes: u64,
    /// Blocks of those.
    pub blocks: u64,
    /// The same line.
    #[serde(skip)]
    pub owner: Owner,
}

/// One hint.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Hint {
    /// What about.
    pub kind: HintKind,
    /// Device ordinal.
    pub device: u8,
    /// How many bytes it is about.
    pub bytes: u64,
    /// What was seen.
    pub what: String,
    /// What can be done.
    pub advice: String,
    /// Lines, those with most first; at most five.
    pub lines: Vec<Evidence>,
}

/// All hints, those about most bytes first.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Hints {
    /// The hints.
    pub hints: Vec<Hint>,
}

impl Hints {
    /// The hints of a capture: of its devices' peaks, whose ledgers are `ledgers`, and of what was seen on
    /// the way.
    pub fn of(session: &Session, ledgers: &[Ledger], watch: &HintWatch) -> Self {
        let mut hints = Vec::new();
        for ledger in ledgers {
            let device = DeviceOrdinal(ledger.device);
            hints.extend(held::hints(&session.replay, device, watch));
            hints.extend(cached(ledger));
            hints.extend(watch.hint(device));
            hints.extend(others(ledger));
        }
        hints.extend(imbalance(session, ledgers));
        hints.sort_by(|a, b| (b.bytes, a.kind, a.device).cmp(&(a.bytes, b.kind, b.device)));
        Self { hints }
    }
}

/// Whether a part is worth a hint.
fn is_notable(part: u64, of: u64, percent: u64) -> bool {
    part > 0 && u128::from(part) * 100 >= u128::from(of) * u128::from(percent)
}

/// What PyTorch's pool held free at the peak.
fn cached(ledger: &Ledger) -> Option<Hint> {
    let pool = ledger.pool.as_ref()?;
    if !is_notable(pool.cached_bytes, pool.reserved_bytes, 2 * NOTABLE) {
        return None;
    }
    let largest = crate::render::bytes(pool.largest_free_block_bytes);
    let cached = crate::render::bytes(pool.cached_bytes);
    Some(Hint {
        kind: HintKind::CachedUnused,
        device: ledger.device,
        bytes: pool.cached_bytes,
        what: format!("PyTorch's pool held {cached} free at the peak, the largest piece {largest}"),
        advice: "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True lets pieces grow together; \
                 gpumem-analyze ledger --segments names the lines that pin the rest"
            .into(),
        lines: Vec::new(),
    })
}

/// Other processes on the card.
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
            crate::render::bytes(bytes)
        ),
        advice: "nvidia-smi names them; other ranks' contexts on one card come from a missing \
                 torch.cuda.set_device(local_rank)"
            .into(),
        lines: Vec::new(),
    })
}

/// Devices that held unequally much at their peaks.
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
    let bytes = crate::render::bytes;
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
        advice: "the fullest card sets the limit: move layers or the batch's larger part; \
                 gpumem-analyze lines names what each holds"
            .into(),
        lines: Vec::new(),
    })
}
