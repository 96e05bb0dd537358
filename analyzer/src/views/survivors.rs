//! Memory that remains live from step to step: leaks, caches, and memory that a training keeps from its warm-up.
//!
//! The age of a block is the number of steps that ended since its allocation. For each stack, only the live bytes by
//! the step of their allocation are kept, and the bytes at the ends of a bounded number of steps.

use std::collections::{BTreeMap, BTreeSet};

use gpumem_capture::{DeviceOrdinal, EventKind, Level, Record};
use rustc_hash::FxHashMap;

use super::block_events::{Kept, On};
use super::by_stack::{ByStack, DeviceStacks, Owners, Select};
use super::growth::{Points, grows, slope};
use super::json::ordinal;
use super::kept_graphs::KeptSeries;
use super::leaks::{Class, LeakRow, Leaks};
use super::ledger::Place;
use crate::attribution::Owner;
use crate::replay::{At, Block, Effect, Figure, Replay, Scale, Sizes, StackKey, ThreadPhase};

/// The options.
#[derive(Clone, Debug)]
pub struct AskedLeaks {
    /// Which level.
    pub level: Level,
    /// The point in time; not the peak.
    pub moment: At,
    /// Sizes of blocks.
    pub sizes: Sizes,
    /// The wanted part.
    pub select: Select,
    /// The least age of blocks, in steps.
    pub least_steps: u64,
    /// The last step of the warm-up.
    pub warm_up_steps: u64,
}

/// A step before the first known one.
const BEFORE: u64 = 0;

/// The memory of one stack on one device.
#[derive(Debug, Default)]
struct Life {
    /// Live bytes by the step of their allocation.
    births: BTreeMap<u64, Figure>,
    live: u64,
    /// The step of its last change, and its bytes at the start of that step.
    changed: (u64, u64),
    /// Bytes at the ends of recorded steps, without zeros.
    ends: Vec<(u64, u64)>,
}

impl Life {
    /// The sum.
    fn all(&self) -> Figure {
        self.births.values().fold(Figure::default(), plus)
    }

    /// Bytes at the end of the newest step.
    fn at_the_end_of(&self, step: u64) -> u64 {
        match self.changed {
            (changed, had) if changed > step => had,
            _ => self.live,
        }
    }
}

/// Follows a capture.
pub struct Survivors {
    asked: AskedLeaks,
    lives: FxHashMap<On, Life>,
    /// The step of each live block, by the event of its allocation.
    born: Kept<u64>,
    /// Steps that have ended.
    steps: u64,
    /// The first step whose blocks are known.
    known_from: u64,
    points: Points,
}

impl Survivors {
    /// Follows a capture for these options.
    pub fn new(asked: AskedLeaks) -> Self {
        Self {
            points: Points::from(asked.warm_up_steps),
            born: Kept::of(asked.level),
            asked,
            lives: FxHashMap::default(),
            steps: 0,
            known_from: 1,
        }
    }

    /// Observes a record after the replay has.
    pub fn observe(&mut self, replay: &Replay, record: Record<'_>, effect: Effect) {
        let (seq, event) = match record {
            Record::Event(seq, event) => (seq, event),
            Record::State(..) => return self.restore(replay),
            Record::Definition(..) => return,
        };
        if replay.until().is_some_and(|until| seq > until) {
            return;
        }
        if event.kind == EventKind::STEP {
            self.step(replay.spans.steps);
        } else if event.level == self.asked.level && self.asked.select.takes_device(event.device) {
            self.change(event.device, effect);
        }
    }

    fn change(&mut self, device: DeviceOrdinal, effect: Effect) {
        let now = self.steps.saturating_add(1);
        let (Effect::Live(block) | Effect::Gone(block)) = effect else {
            return;
        };
        if !self.asked.sizes.take(block.bytes) {
            return;
        }
        let life = self.lives.entry((device, block.key)).or_default();
        if life.changed.0 != now {
            life.changed = (now, life.live);
        }
        if let Effect::Live(block) = effect {
            let (born, _) = self.born.came(block, now);
            add(life, born, block);
            return;
        }
        let born = self.born.went(block).unwrap_or(BEFORE);
        life.live = life.live.saturating_sub(block.bytes);
        if let Some(figure) = life.births.get_mut(&born) {
            figure.bytes = figure.bytes.saturating_sub(block.bytes);
            figure.blocks = figure.blocks.saturating_sub(1);
            if figure.blocks == 0 {
                life.births.remove(&born);
            }
        }
    }

    fn step(&mut self, ended: u64) {
        self.steps = ended;
        if !self.points.take(ended) {
            return;
        }
        for life in self.lives.values_mut() {
            if life.live > 0 {
                life.ends.push((ended, life.live));
            }
        }
        if self.points.thin() {
            let points = &self.points;
            for life in self.lives.values_mut() {
                life.ends.retain(|(step, _)| points.has(*step));
            }
        }
    }

    /// Applies the state that a bounded capture has instead of the first records.
    fn restore(&mut self, replay: &Replay) {
        self.lives.clear();
        self.born.clear();
        self.steps = replay.spans.steps;
        self.known_from = self.steps.saturating_add(1);
        let wanted = |(device, level): &(DeviceOrdinal, Level)| {
            *level == self.asked.level && self.asked.select.takes_device(*device)
        };
        for ((device, _), row) in replay.levels.iter().filter(|(place, _)| wanted(place)) {
            for (_, block) in row.live_blocks() {
                if self.asked.sizes.take(block.bytes) {
                    let key = replay.key_of_all_categories(block.key);
                    let life = self.lives.entry((*device, key)).or_default();
                    self.born.came(block, BEFORE);
                    add(life, BEFORE, block);
                }
            }
        }
        self.step(self.steps);
    }

    /// The memory that is live at the point in time, after all records.
    pub fn leaks(&self, replay: &Replay) -> Leaks {
        let asked = &self.asked;
        let mut owners = Owners::new(replay, asked.level);
        let mut lines: BTreeMap<(DeviceOrdinal, Owner), Line> = BTreeMap::new();
        let scales = self.scales(replay);
        for ((device, key), life) in &self.lives {
            let stacks = replay.stacks(*key);
            let owner = owners.of(stacks);
            if !life.births.is_empty() && asked.select.takes(replay, stacks, asked.level, &owner) {
                let scale = |figure| match scales.get(device) {
                    Some(scale) => scale.of(stacks, figure),
                    None => figure,
                };
                if scale(life.all()) != Figure::default() {
                    let line = lines.entry((*device, owner)).or_default();
                    line.add(life, self.steps, &scale);
                    line.others |= stacks.purpose.phase() != ThreadPhase::Optimizer;
                }
            }
        }
        let points = self.points.with(self.steps);
        let rows = lines.into_iter();
        let mut rows: Vec<LeakRow> = rows
            .map(|((device, owner), line)| self.row(device, owner, &line, &points))
            .collect();
        let mismatches = self.compare(replay, &mut rows);
        rows.sort_by(LeakRow::in_order);
        let holder = super::kept_graphs::holder(replay, &rows, self.series(&points), self.steps);
        if let Some(holder) = &holder {
            holder.come_first(&mut rows);
        }
        Leaks {
            level: asked.level,
            steps: self.steps,
            warm_up_steps: asked.warm_up_steps,
            least_steps: asked.least_steps,
            bytes: rows.iter().map(|row| row.bytes).sum(),
            holder,
            rows,
            mismatches,
        }
    }

    /// The bytes of each stack at the ends of steps, and its live blocks.
    fn series<'a>(&'a self, points: &'a [u64]) -> impl Iterator<Item = KeptSeries> + 'a {
        self.lives.iter().map(|((device, key), life)| {
            let at = |step: &u64| life.ends.binary_search_by_key(step, |(at, _)| *at);
            let bytes = |step: &u64| match at(step) {
                Ok(at) => life.ends[at].1,
                Err(_) if *step == self.steps => life.at_the_end_of(*step),
                Err(_) => 0,
            };
            KeptSeries {
                device: *device,
                key: *key,
                blocks: life.all().blocks,
                bytes: points.iter().map(|step| (*step, bytes(step))).collect(),
            }
        })
    }

    /// The scale of single blocks on each device, if stacks are sampled.
    fn scales(&self, replay: &Replay) -> BTreeMap<DeviceOrdinal, Scale> {
        let (level, moment) = (self.asked.level, self.asked.moment);
        let devices: BTreeSet<_> = self.lives.keys().map(|(device, _)| *device).collect();
        let scale = |device| (device, replay.scale(device, level, Some(moment)));
        match replay.sampling {
            Some(_) => devices.into_iter().map(scale).collect(),
            None => BTreeMap::new(),
        }
    }

    /// The memory of growing lines, by stack.
    pub fn growing(&self, replay: &Replay) -> ByStack {
        let level = self.asked.level;
        let rows = self.leaks(replay).rows.into_iter();
        let growing = rows.filter(|row| row.class == Some(Class::Growing));
        let growing: BTreeSet<(Option<u8>, Owner)> =
            growing.map(|row| (row.device, row.owner)).collect();
        let mut owners = Owners::new(replay, level);
        let scales = self.scales(replay);
        let mut devices: BTreeMap<DeviceOrdinal, Vec<(StackKey, Figure)>> = BTreeMap::new();
        for ((device, key), life) in &self.lives {
            let (stacks, ordinal) = (replay.stacks(*key), ordinal(*device));
            if growing.contains(&(ordinal, owners.of(stacks))) {
                let figure = match scales.get(device) {
                    Some(scale) => scale.of(stacks, life.all()),
                    None => life.all(),
                };
                devices.entry(*device).or_default().push((stacks, figure));
            }
        }
        let on = |(device, figures)| DeviceStacks {
            device,
            figures,
            total: None,
        };
        let devices = devices.into_iter().map(on).collect();
        ByStack { level, devices }
    }

    /// Whether enough steps have ended since.
    fn is_old(&self, born: u64) -> bool {
        let latest = born.max(self.known_from.saturating_sub(1)).max(1);
        self.steps.saturating_sub(latest).saturating_add(1) >= self.asked.least_steps
    }

    fn row(&self, device: DeviceOrdinal, owner: Owner, line: &Line, points: &[u64]) -> LeakRow {
        let all = line.births.values().fold(Figure::default(), plus);
        let old = line.births.iter().filter(|(born, _)| self.is_old(**born));
        let survived = old.clone().map(|(_, figure)| figure);
        let survived = survived.fold(Figure::default(), plus);
        let after_warm_up = old.filter(|(born, _)| **born > self.asked.warm_up_steps);
        let series: Vec<(u64, u64)> = points
            .iter()
            .map(|step| (*step, line.ends.get(step).copied().unwrap_or(0)))
            .collect();
        let class = match after_warm_up.count() {
            _ if owner.is_workspace() => Class::Cache,
            _ if survived.blocks == 0 => Class::EndOnly,
            0 => Class::WarmUp,
            1 if !line.others => Class::WarmUp,
            2.. if grows(&series) => Class::Growing,
            _ => Class::Cache,
        };
        let step = |born: &u64| Some(*born).filter(|born| *born != BEFORE);
        LeakRow {
            device: ordinal(device),
            place: Place::of(Some(&owner)),
            library: owner.library(),
            class: (self.steps > 0).then_some(class),
            bytes: all.bytes,
            blocks: all.blocks,
            survived_bytes: survived.bytes,
            survived_blocks: survived.blocks,
            oldest_step: line.births.keys().next().and_then(step),
            newest_step: line.births.keys().next_back().and_then(step),
            bytes_per_step: slope(&series),
            owner,
        }
    }

    /// Compares the rows with the level's own figure. Blocks that a bounded capture no longer has individually become
    /// a row.
    fn compare(&self, replay: &Replay, rows: &mut Vec<LeakRow>) -> Vec<(DeviceOrdinal, u64, u64)> {
        let asked = &self.asked;
        if !asked.select.is_whole() || !asked.sizes.are_all() {
            return Vec::new();
        }
        let mut mismatches = Vec::new();
        let devices = replay.levels.keys();
        for (device, _) in
            devices.filter(|(device, of)| *of == asked.level && asked.select.takes_device(*device))
        {
            let of = rows.iter().filter(|row| row.device == ordinal(*device));
            let sum: u64 = of.map(|row| row.bytes).sum();
            let total = replay.total(*device, asked.level, asked.moment);
            if total > sum && replay.evicted.blocks > 0 {
                let mut line = Line::default();
                let bytes = total - sum;
                line.births.insert(BEFORE, Figure { bytes, blocks: 0 });
                let mut row = self.row(*device, Owner::Evicted, &line, &[]);
                row.class = row.class.map(|_| Class::WarmUp);
                rows.push(row);
            } else if total != sum {
                mismatches.push((*device, sum, total));
            }
        }
        mismatches
    }
}

fn add(life: &mut Life, born: u64, block: Block) {
    let (bytes, blocks) = (block.bytes, 1);
    *life.births.entry(born).or_default() += Figure { bytes, blocks };
    life.live = life.live.saturating_add(bytes);
}

fn plus(mut sum: Figure, figure: &Figure) -> Figure {
    sum += *figure;
    sum
}

/// All stacks of a line on a device.
#[derive(Default)]
struct Line {
    births: BTreeMap<u64, Figure>,
    ends: BTreeMap<u64, u64>,
    /// Whether it has memory other than an optimizer's state.
    others: bool,
}

impl Line {
    /// Adds a stack. `scale` is linear except for rounding.
    fn add(&mut self, life: &Life, steps: u64, scale: &dyn Fn(Figure) -> Figure) {
        let (mut passed, mut before) = (Figure::default(), Figure::default());
        for (born, figure) in &life.births {
            passed += *figure;
            // The rounding error is added to the next part, so that the parts sum to the whole.
            let mut part = scale(passed);
            part -= before;
            before += part;
            *self.births.entry(*born).or_default() += part;
        }
        let bytes = |bytes| scale(Figure { bytes, blocks: 0 }).bytes;
        for (step, had) in &life.ends {
            *self.ends.entry(*step).or_default() += bytes(*had);
        }
        if life.ends.last().is_none_or(|(step, _)| *step != steps) {
            *self.ends.entry(steps).or_default() += bytes(life.at_the_end_of(steps));
        }
    }
}
