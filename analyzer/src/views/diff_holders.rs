//! Which objects keep tensors in two captures, at the failure or near the peak of each.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use gpumem_capture::DeviceOrdinal;
use gpumem_judge::Holders;
use schemars::JsonSchema;
use serde::Serialize;

use super::cause::holder_kinds;
use super::diff::change;
use crate::replay::{Figure, Replay};

/// When the recorder looked for the objects that keep tensors.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum KeptAt {
    /// At the newest failure at which it did.
    Failure,
    /// Near the newest peak (`GPUMEM_HOLDERS`), without such a failure.
    Peak,
}

/// The objects that keep a device's tensors, in two captures.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct HoldersDiff {
    /// Device ordinal.
    pub device: u8,
    /// When the objects of the first capture were looked for.
    pub before_at: KeptAt,
    /// When the objects of the second capture were looked for.
    pub after_at: KeptAt,
    /// Objects that are called alike, the largest growth first. Equal ones are included.
    pub rows: Vec<HolderRow>,
}

/// Objects that are called alike, in two captures.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct HolderRow {
    /// The kind of holder, as in `oom`.
    #[schemars(extend("enum" = holder_kinds()))]
    pub kind: &'static str,
    /// How Python code would refer to it, without numbers: `metric.preds[…]`.
    pub text: String,
    /// Where that is, without line numbers: `local of main (train.py)`.
    pub place: String,
    /// Bytes in the first capture; 0 if it has no such object among its largest ones.
    pub before_bytes: u64,
    /// Bytes in the second capture; 0 if it has no such object among its largest ones.
    pub after_bytes: u64,
    /// `after_bytes` less `before_bytes`.
    pub change_bytes: i64,
    /// Number of the tensors' blocks in the first capture.
    pub before_blocks: u64,
    /// Number of the tensors' blocks in the second capture.
    pub after_blocks: u64,
}

impl HoldersDiff {
    /// Compares the objects of each device of which both captures have some. `only` selects a device.
    pub fn all(before: &Replay, after: &Replay, only: Option<DeviceOrdinal>) -> Vec<Self> {
        let failures = |replay: &Replay| replay.failures.all();
        let failed = failures(before).into_iter().chain(failures(after));
        let failed = failed.map(|(_, failure)| failure.event.device);
        let devices = before.devices.keys().copied().chain(failed);
        let devices: BTreeSet<DeviceOrdinal> = devices
            .filter(|device| only.is_none_or(|only| only == *device))
            .collect();
        let diff = |device: DeviceOrdinal| {
            let (before_at, before) = kept(before, device)?;
            let (after_at, after) = kept(after, device)?;
            Some(Self {
                device: device.0,
                before_at,
                after_at,
                rows: rows([&before, &after]),
            })
        };
        devices.into_iter().filter_map(diff).collect()
    }
}

fn kept(replay: &Replay, device: DeviceOrdinal) -> Option<(KeptAt, Holders)> {
    let failures = replay.failures.all();
    let of_device = failures.iter().rev();
    let mut of_device = of_device.filter(|(_, of)| of.event.device == device);
    let at_failure = of_device.find_map(|(_, of)| Holders::at(&replay.names, of.seq));
    match at_failure {
        Some(holders) => Some((KeptAt::Failure, holders)),
        None => Some((KeptAt::Peak, Holders::at_peak(&replay.names, device)?.1)),
    }
}

fn rows(both: [&Holders; 2]) -> Vec<HolderRow> {
    let mut rows: BTreeMap<(&'static str, String, String), [Figure; 2]> = BTreeMap::new();
    for (side, holders) in both.into_iter().enumerate() {
        for of in &holders.all {
            let key = (of.kind.name(), alike(&of.text), alike(&of.place));
            if let Some(figure) = rows.entry(key).or_default().get_mut(side) {
                figure.bytes = figure.bytes.saturating_add(of.bytes);
                figure.blocks = figure.blocks.saturating_add(of.blocks);
            }
        }
    }
    let rows = rows
        .into_iter()
        .map(|((kind, text, place), [before, after])| HolderRow {
            kind,
            text,
            place,
            before_bytes: before.bytes,
            after_bytes: after.bytes,
            change_bytes: change(before.bytes, after.bytes),
            before_blocks: before.blocks,
            after_blocks: after.blocks,
        });
    let mut rows: Vec<HolderRow> = rows.collect();
    rows.sort_by_key(|row| Reverse(row.change_bytes));
    rows
}

/// A name without the numbers that differ between runs: of elements (`[…]`), of lines, of calls and of results. Numbers in
/// names and in quotes stay.
fn alike(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        let number = rest.trim_start_matches(|c: char| c.is_ascii_digit() || c == '…');
        let length = rest.len() - number.len();
        let before = out.chars().next_back();
        let is_alone =
            matches!(before, Some('[' | '×' | ':' | ' ')) && number.starts_with([']', ')', ' ']);
        if length == 0 || !is_alone {
            let length = length.max(c.len_utf8());
            out.push_str(&rest[..length]);
            rest = &rest[length..];
            continue;
        }
        match before {
            Some(':') => {
                out.pop();
            }
            _ => out.push('…'),
        }
        rest = number;
    }
    match out.ends_with("… result") {
        true => out + "s",
        false => out,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_alike_without_numbers() {
        for (text, name) in [
            ("metric.preds[0…213]", "metric.preds[…]"),
            ("metric.preds[7]", "metric.preds[…]"),
            ("model2.layer[3]['0.weight']", "model2.layer[…]['0.weight']"),
            ("cache.keys['1 ]']", "cache.keys['1 ]']"),
            ("local of main (train2.py:31)", "local of main (train2.py)"),
            (
                "local of 30 suspended calls of handle (a.py:3)",
                "local of … suspended calls of handle (a.py)",
            ),
            ("cache of f(), 1 result", "cache of f(), … results"),
            ("head.next (×5).t", "head.next (×…).t"),
            (
                "s[0…2] → coroutine f (a.py:3) x",
                "s[…] → coroutine f (a.py) x",
            ),
        ] {
            assert_eq!(alike(text), name);
        }
    }
}
