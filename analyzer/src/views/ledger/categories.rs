//! The categories of a ledger's tensors.

use std::cmp::Reverse;

use gpumem_capture::{DeviceOrdinal, Level};

use super::{Kind, Ledger, LedgerAt};
use crate::replay::{At, Category, Replay};
use crate::views::{CategoryBytes, by_category};

/// Bytes of the ledger's tensors by category, the largest first; none if `replay` lacks the figures of that point
/// in time.
pub(super) fn of(replay: &Replay, ledger: &Ledger) -> Vec<CategoryBytes> {
    let device = DeviceOrdinal(ledger.device);
    let until = replay.until();
    let figures = match ledger.at {
        LedgerAt::Peak if until.is_none() => replay.figures_at_device_peak(device, Level::TENSOR),
        LedgerAt::PeakOf(Level::TENSOR) if until.is_none() => {
            replay.figures(device, Level::TENSOR, At::Peak)
        }
        LedgerAt::End if until.is_none() => replay.figures(device, Level::TENSOR, At::End),
        LedgerAt::At(seq) if until == Some(seq) => {
            replay.figures(device, Level::TENSOR, At::Event(seq))
        }
        _ => return Vec::new(),
    };
    let tensors = ledger.rows.iter().filter(|row| row.kind == Kind::Tensors);
    let bytes: i64 = tensors.map(|row| row.bytes).sum();
    let sum: u64 = figures.iter().map(|(_, figure)| figure.bytes).sum();
    if i64::try_from(sum) != Ok(bytes) || figures.is_empty() {
        return Vec::new();
    }
    let mut all: Vec<_> = by_category(figures.into_iter())
        .into_iter()
        .filter(|(category, _)| *category != Category::None)
        .map(|(category, figure)| CategoryBytes {
            category,
            bytes: figure.bytes,
        })
        .collect();
    all.sort_by_key(|of| (Reverse(of.bytes), of.category));
    all
}
