//! Finds the line whose tensor keeps graphs alive from step to step.

use gpumem_capture::{DeviceOrdinal, Level};

use super::by_stack::Owners;
use super::cause::graph::{self, Grows};
use super::cause::places::{Place, place};
use super::growth::{grows, slope};
use super::json::ordinal;
use super::leaks::{Class, LeakHolder, LeakRow};
use super::ledger;
use crate::replay::{KeyId, Replay};

/// The bytes of one stack at the ends of steps.
pub(super) struct KeptSeries {
    pub device: DeviceOrdinal,
    pub key: KeyId,
    /// Its live blocks.
    pub blocks: u64,
    /// By step.
    pub bytes: Vec<(u64, u64)>,
}

/// The holder of growing graphs, if memory of a forward grows; for the first device with one.
pub(super) fn holder(
    replay: &Replay,
    rows: &[LeakRow],
    series: impl Iterator<Item = KeptSeries>,
    steps: u64,
) -> Option<LeakHolder> {
    let growing: Vec<KeptSeries> = series.filter(|of| grows(&of.bytes)).collect();
    let mut devices: Vec<DeviceOrdinal> = growing.iter().map(|of| of.device).collect();
    devices.sort_unstable();
    devices.dedup();
    let mut owners = Owners::new(replay, Level::TENSOR);
    devices.into_iter().find_map(|device| {
        let on = || growing.iter().filter(|of| of.device == device);
        let is_forward =
            |of: &KeptSeries| place(&replay.names, replay.stacks(of.key)) == Place::Forward;
        if !on().any(is_forward) {
            return None;
        }
        let lines = on().map(|of| Grows {
            line: owners.of(replay.stacks(of.key)),
            bytes_per_round: slope(&of.bytes).max(0).unsigned_abs(),
            blocks: of.blocks,
            first: u64::from(of.key.0),
        });
        let lines: Vec<_> = lines.collect();
        let found = graph::holder(&lines, steps)?;
        let others = rows.iter().filter(|row| {
            row.device == ordinal(device)
                && row.class == Some(Class::Growing)
                && row.owner != found.line
        });
        Some(LeakHolder {
            device: ordinal(device),
            place: ledger::Place::of(Some(&found.line)),
            blocks: found.blocks,
            held_bytes: others.map(|row| row.bytes).sum(),
            owner: found.line.clone(),
        })
    })
}
