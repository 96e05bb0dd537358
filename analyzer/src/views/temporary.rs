//! Temporary blocks: freed within a few events or a short time.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use gpumem_capture::{DeviceOrdinal, Level, Nanos, Record, Seq};
use rustc_hash::FxHashMap;
use schemars::JsonSchema;
use serde::Serialize;

use super::block_events::{BlockEvents, Kept, On, Seen};
use super::by_stack::{ByStack, DeviceStacks, Owners};
use super::json::{by_name, ordinal};
use super::ledger::Place;
use crate::attribution::Owner;
use crate::replay::{Effect, Figure, Replay, Scale, StackKey};

/// Limit of the time between allocation and free of a temporary block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Within {
    /// At most this many events of the level on the same GPU; 1: the next event is the free.
    Events(u64),
    /// At most this time.
    Time(Nanos),
}

/// Temporary blocks of one line on one GPU: blocks that were freed within the limit of `--within`. If
/// stacks are sampled, all figures except `largest_bytes` are estimates.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct TemporaryRow {
    /// Ordinal of the GPU; `None`: memory of no GPU.
    pub device: Option<u8>,
    /// The line that allocated the blocks.
    #[serde(flatten)]
    pub place: Place,
    /// Library that allocated the blocks, if no Python line did; absent otherwise.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub library: Option<String>,
    /// Number of temporary blocks over the whole run.
    pub blocks: u64,
    /// Sum of the bytes of these temporary blocks, which need not have been live at once.
    pub bytes: u64,
    /// Size in bytes of the largest temporary block.
    pub largest_bytes: u64,
    /// Bytes of the temporary blocks that were live at the level's peak on this GPU.
    pub peak_bytes: u64,
    /// Number of all blocks that the line allocated over the whole run, temporary or not.
    pub all_blocks: u64,
    /// Sum of the bytes of all blocks that the line allocated over the whole run.
    pub all_bytes: u64,
    /// The owner itself.
    #[serde(skip)]
    pub owner: Owner,
}

/// Temporary blocks of a level over the whole run, by line.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Temporary {
    /// Level at which blocks are counted: `tensor`, `driver` or `host`.
    #[serde(serialize_with = "by_name")]
    #[schemars(with = "String")]
    pub level: Level,
    /// Number of temporary blocks: the sum of the rows.
    pub blocks: u64,
    /// Sum of the bytes of the temporary blocks.
    pub bytes: u64,
    /// Number of all blocks that were allocated, also by lines without temporary blocks.
    pub all_blocks: u64,
    /// Sum of the bytes of all blocks that were allocated.
    pub all_bytes: u64,
    /// Lines with temporary blocks, those with the most bytes first; empty if no block was temporary.
    pub rows: Vec<TemporaryRow>,
}

/// The figures of one stack on one device.
#[derive(Clone, Copy, Debug, Default)]
struct Tally {
    temporary: Figure,
    largest: u64,
    /// Temporary bytes that were live at this peak of the level.
    at_peak: (Seq, u64),
    all: Figure,
}

impl Tally {
    fn add(&mut self, other: &Self, peak: Seq) {
        self.temporary += other.temporary;
        self.largest = self.largest.max(other.largest);
        self.all += other.all;
        if other.at_peak.0 == peak {
            self.at_peak.1 += other.at_peak.1;
        }
    }
}

/// When a block was allocated.
#[derive(Clone, Copy, Debug)]
struct Birth {
    /// The number of the event among those of the level on the device.
    event: u64,
    time: Nanos,
    is_taken: bool,
}

/// Follows the blocks of a capture.
pub struct ShortLived<'a> {
    within: Within,
    block_events: BlockEvents<'a>,
    births: Kept<Birth>,
    events: FxHashMap<DeviceOrdinal, u64>,
    tallies: FxHashMap<On, Tally>,
}

impl<'a> ShortLived<'a> {
    /// Counts the blocks that are freed within this limit.
    pub fn new(within: Within, block_events: BlockEvents<'a>) -> Self {
        Self {
            within,
            births: Kept::of(block_events.level()),
            block_events,
            events: FxHashMap::default(),
            tallies: FxHashMap::default(),
        }
    }

    /// Observes a record after the replay has.
    pub fn observe(&mut self, replay: &Replay, record: Record<'_>, effect: Effect) {
        let Some(seen) = self.block_events.see(replay, record, effect) else {
            return;
        };
        let events = self.events.entry(seen.event.device).or_default();
        *events += 1;
        let birth = Birth {
            event: *events,
            time: seen.event.time,
            is_taken: seen.is_taken,
        };
        if seen.is_live {
            self.came(&seen, birth);
        } else {
            self.went(replay, &seen, birth);
        }
    }

    fn came(&mut self, seen: &Seen<'_>, now: Birth) {
        let (birth, is_back) = self.births.came(seen.block, now);
        if !birth.is_taken {
            return;
        }
        let tally = self
            .tallies
            .entry((seen.event.device, seen.block.key))
            .or_default();
        let bytes = seen.block.bytes;
        if !is_back {
            tally.all += Figure { bytes, blocks: 1 };
        } else if within(self.within, birth, now, true) {
            // The free that made it temporary did not happen. Until the next peak, its part of the peak may be too
            // large.
            tally.temporary.bytes = tally.temporary.bytes.saturating_sub(bytes);
            tally.temporary.blocks = tally.temporary.blocks.saturating_sub(1);
        }
    }

    fn went(&mut self, replay: &Replay, seen: &Seen<'_>, now: Birth) {
        let birth = self.births.went(seen.block);
        let Some(birth) = birth.filter(|birth| birth.is_taken) else {
            return;
        };
        if !within(self.within, birth, now, false) {
            return;
        }
        let place = (seen.event.device, self.block_events.level());
        let peak = replay.levels.get(&place).map_or(Seq(0), |row| row.peak.0);
        let tally = self
            .tallies
            .entry((seen.event.device, seen.block.key))
            .or_default();
        let bytes = seen.block.bytes;
        tally.temporary += Figure { bytes, blocks: 1 };
        tally.largest = tally.largest.max(bytes);
        if seen.block.seq <= peak {
            if tally.at_peak.0 != peak {
                tally.at_peak = (peak, 0);
            }
            tally.at_peak.1 += bytes;
        }
    }

    /// The estimated figures of a stack, if stacks are sampled: all are scaled like its allocations.
    fn scaled(
        &self,
        scales: &BTreeMap<DeviceOrdinal, Scale>,
        device: DeviceOrdinal,
        stacks: StackKey,
        tally: &Tally,
    ) -> Tally {
        let Some(scale) = scales.get(&device) else {
            return *tally;
        };
        Tally {
            temporary: scale.of(stacks, tally.temporary),
            at_peak: (tally.at_peak.0, scale.bytes(stacks, tally.at_peak.1)),
            all: scale.of(stacks, tally.all),
            ..*tally
        }
    }

    fn scales(&self, replay: &Replay) -> BTreeMap<DeviceOrdinal, Scale> {
        let level = self.block_events.level();
        let devices = self.events.keys().filter(|_| replay.sampling.is_some());
        let scale = |device: &DeviceOrdinal| (*device, replay.scale(*device, level, None));
        devices.map(scale).collect()
    }

    /// Bytes of temporary blocks, by stack.
    pub fn held(&self, replay: &Replay) -> ByStack {
        let scales = self.scales(replay);
        let mut devices: BTreeMap<DeviceOrdinal, Vec<_>> = BTreeMap::new();
        for ((device, key), tally) in &self.tallies {
            let stacks = replay.stacks(*key);
            let scaled = self.scaled(&scales, *device, stacks, tally).temporary;
            if scaled.blocks > 0 {
                devices.entry(*device).or_default().push((stacks, scaled));
            }
        }
        let on = |(device, figures)| DeviceStacks {
            device,
            figures,
            total: None,
        };
        ByStack {
            level: self.block_events.level(),
            devices: devices.into_iter().map(on).collect(),
        }
    }

    /// The result by line.
    pub fn lines(&self, replay: &Replay) -> Temporary {
        let level = self.block_events.level();
        let mut owners = Owners::new(self.block_events.first(), level);
        let scales = self.scales(replay);
        let mut lines: BTreeMap<(DeviceOrdinal, Owner), Tally> = BTreeMap::new();
        for ((device, key), tally) in &self.tallies {
            let owner = owners.of(replay.stacks(*key));
            let peak = replay.levels.get(&(*device, level)).map(|row| row.peak.0);
            let line = lines.entry((*device, owner)).or_default();
            let tally = self.scaled(&scales, *device, replay.stacks(*key), tally);
            line.add(&tally, peak.unwrap_or_default());
        }
        let all = lines.values().fold(Figure::default(), |mut all, line| {
            all += line.all;
            all
        });
        let some = lines
            .into_iter()
            .filter(|(_, line)| line.temporary.blocks > 0);
        let mut rows: Vec<TemporaryRow> = some
            .map(|((device, owner), line)| TemporaryRow {
                device: ordinal(device),
                place: Place::of(Some(&owner)),
                library: owner.library(),
                blocks: line.temporary.blocks,
                bytes: line.temporary.bytes,
                largest_bytes: line.largest,
                peak_bytes: line.at_peak.1,
                all_blocks: line.all.blocks,
                all_bytes: line.all.bytes,
                owner,
            })
            .collect();
        rows.sort_by(|a, b| {
            let order = |row: &TemporaryRow| (Reverse((row.bytes, row.blocks)), row.device);
            order(a).cmp(&order(b)).then_with(|| a.owner.cmp(&b.owner))
        });
        Temporary {
            level,
            blocks: rows.iter().map(|row| row.blocks).sum(),
            bytes: rows.iter().map(|row| row.bytes).sum(),
            all_blocks: all.blocks,
            all_bytes: all.bytes,
            rows,
        }
    }
}

/// Whether a block that was allocated at `birth` and freed at `now` was temporary. `back`: `now` is when a failed
/// free restored it, at least one event after the free.
fn within(within: Within, birth: Birth, now: Birth, back: bool) -> bool {
    match within {
        Within::Events(events) => now.event - birth.event <= events + u64::from(back),
        Within::Time(time) => now.time.0.saturating_sub(birth.time.0) <= time.0,
    }
}
