//! One workload before and after a change: its peaks and their parts.

use std::collections::BTreeMap;

use gpumem_capture::{DeviceOrdinal, Level};
use schemars::JsonSchema;
use serde::Serialize;

use super::parts::{self, PartChange, Parts, change};
use crate::account::{Ending, place};
use crate::session::Session;
use crate::views::json::{by_name, ordinal};

/// The peaks of a workload on one device, before and after a change.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct DevicePeaks {
    /// Device ordinal; `None` for memory of no device.
    pub device: Option<u8>,
    /// The base's peak in bytes; 0 if the base has no memory on this device. `None`: the workload has no base.
    pub base_bytes: Option<u64>,
    /// The head's peak in bytes; 0 if the head has no memory on this device. `None`: only the base has this workload.
    pub head_bytes: Option<u64>,
    /// `head_bytes` less `base_bytes`; `None` if either is `None`.
    pub change_bytes: Option<i64>,
    /// Lines whose bytes differ between the two peaks, the largest change first. Empty if base or head is missing.
    pub lines: Vec<PartChange>,
    /// Categories of tensors whose bytes differ between the two peaks, the largest change first. Empty if base or
    /// head is missing, and at levels other than `tensor`.
    pub categories: Vec<PartChange>,
    /// Modules whose bytes differ between the two peaks, the largest change first. Empty if base or head is missing,
    /// and if the captures have no modules.
    pub modules: Vec<PartChange>,
}

/// Why the figures of a capture may be wrong, and how to read them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Quality {
    /// Reasons why the peaks of the capture cannot be judged, one sentence each. Empty: the peaks are exact.
    pub missing: Vec<String>,
    /// Notes on the figures that do not prevent a judgment, one sentence each, such as that stacks are sampled.
    pub notes: Vec<String>,
}

/// A program that CI records, with its peaks in the base and the head.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Workload {
    /// Name of the workload: by default that of its captures without `.bin`, relative to their folder.
    pub name: String,
    /// The level of the peaks that are compared: `tensor`, `driver` or `host`.
    #[serde(serialize_with = "by_name")]
    #[schemars(with = "String")]
    pub level: Level,
    /// The peaks by device. If neither capture has memory at the level, one entry without a device, with peaks of 0
    /// bytes.
    pub devices: Vec<DevicePeaks>,
    /// Quality of the base's figures; `None`: the workload has no base.
    pub base: Option<Quality>,
    /// Quality of the head's figures; `None`: only the base has this workload.
    pub head: Option<Quality>,
    /// The head's peaks in bytes at all of its levels, by device and level.
    #[serde(skip)]
    pub peaks: BTreeMap<(Option<u8>, Level), u64>,
}

impl Workload {
    /// Compares two captures at their peaks. With only one capture, reads its peaks without a comparison. The default
    /// `level` is `tensor` if either capture has tensors, else `driver`.
    pub fn of(
        name: &str,
        base: Option<&Session>,
        head: Option<&Session>,
        level: Option<Level>,
    ) -> Self {
        let level = level.unwrap_or_else(|| {
            let mut sides = base.iter().chain(&head);
            let has =
                |of| move |session: &&Session| session.replay.levels.keys().any(|key| key.1 == of);
            match sides.any(has(Level::TENSOR)) {
                true => Level::TENSOR,
                false => Level::DRIVER,
            }
        });
        let sides = [base, head].map(|side| side.map(|session| Parts::of(session, level)));
        let quality = |session: Option<&Session>, parts: &Option<Parts<'_>>| {
            Some(quality(session?, parts.as_ref()?, level))
        };
        Self {
            name: name.to_owned(),
            level,
            devices: devices(base, head, &sides, level),
            base: quality(base, &sides[0]),
            head: quality(head, &sides[1]),
            peaks: head.map(peaks).unwrap_or_default(),
        }
    }

    /// Whether both captures exist.
    pub fn is_compared(&self) -> bool {
        self.base.is_some() && self.head.is_some()
    }

    /// The reasons why the captures cannot be judged, each with its side: `base` or `head`.
    pub fn missing(&self) -> impl Iterator<Item = (&'static str, &str)> {
        let sides = [("base", &self.base), ("head", &self.head)];
        sides.into_iter().flat_map(|(side, quality)| {
            let lines = quality.iter().flat_map(|quality| &quality.missing);
            lines.map(move |line| (side, line.as_str()))
        })
    }
}

fn devices(
    base: Option<&Session>,
    head: Option<&Session>,
    sides: &[Option<Parts<'_>>; 2],
    level: Level,
) -> Vec<DevicePeaks> {
    let of_level = |session: &Session| {
        let keys = session.replay.levels.keys();
        keys.filter(|key| key.1 == level)
            .map(|key| key.0)
            .collect::<Vec<_>>()
    };
    let mut ordinals: Vec<DeviceOrdinal> =
        base.iter().chain(&head).flat_map(|s| of_level(s)).collect();
    ordinals.sort_unstable();
    ordinals.dedup();
    // A program without memory at the level has a row of 0 B.
    if ordinals.is_empty() {
        ordinals.push(DeviceOrdinal::NONE);
    }
    let rows = ordinals.into_iter().map(|device| {
        let peak = |session: &Session| session.replay.counters(device, level).peak;
        let (before, after) = (base.map(peak), head.map(peak));
        let mut row = DevicePeaks {
            device: ordinal(device),
            base_bytes: before,
            head_bytes: after,
            change_bytes: before.zip(after).map(|(base, head)| change(base, head)),
            lines: Vec::new(),
            categories: Vec::new(),
            modules: Vec::new(),
        };
        if let [Some(base), Some(head)] = sides {
            row.lines = parts::lines(base, head, device);
            row.modules = parts::by_module(base, head, device);
            if level == Level::TENSOR {
                row.categories = parts::by_category(base, head, device);
            }
        }
        row
    });
    rows.collect()
}

fn peaks(session: &Session) -> BTreeMap<(Option<u8>, Level), u64> {
    let levels = session.replay.levels.iter();
    levels
        .map(|((device, level), row)| ((ordinal(*device), *level), row.counters.peak))
        .collect()
}

fn quality(session: &Session, parts: &Parts<'_>, level: Level) -> Quality {
    let account = &session.account;
    let mut missing = account.missing.clone();
    if account.ending == Ending::Running {
        missing.push("its process is still running, so its peak can still grow".into());
    }
    let has = |of| session.replay.levels.keys().any(|key| key.1 == of);
    if level == Level::TENSOR && !has(Level::TENSOR) && has(Level::DRIVER) {
        missing.push("it has memory from CUDA, but no tensors: compare with --level driver".into());
    }
    if session.replay.failures.count() > 0 {
        missing.push("it ran out of memory, so its peak is less than it needs".into());
    }
    missing.extend(parts.mismatches().iter().map(|(device, sum, figure)| {
        let device = place(*device);
        format!("{device}: the lines sum to {sum} bytes, the {level} level has {figure}")
    }));
    let mut notes: Vec<String> = account.sampled().into_iter().collect();
    if account.ending == Ending::Killed {
        notes.push("its process was killed, or ended without its exit handlers: the peak is that until its end".into());
    }
    Quality { missing, notes }
}
