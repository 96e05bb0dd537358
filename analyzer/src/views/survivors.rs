//! Memory that remains live from round to round: leaks, caches, and memory that a program keeps from its warm-up.
//!
//! A round is a step, or one of a loop ([`gpumem_judge::RoundClock`]). The age of a block is the number of rounds that
//! ended since its allocation. For each stack, only the live bytes by the round of their allocation are kept, and the
//! bytes at the ends of a bounded number of rounds.

mod line;

use std::collections::{BTreeMap, BTreeSet};

use gpumem_capture::{DeviceOrdinal, EventKind, Level, Record, Seq};
use gpumem_judge::{Ends, Growth, LoopRounds};
use line::{BEFORE, Life, Line, Lines, holder, plus};
use rustc_hash::FxHashMap;

use super::block_events::{Kept, On};
use super::by_stack::{ByStack, DeviceStacks, Owners, Select};
use super::hints::is_in_graph;
use super::json::ordinal;
use super::leaks::{Class, LeakRow, Leaks};
use super::ledger::Place;
use crate::attribution::Owner;
use crate::replay::{At, Effect, Figure, Replay, Scale, Sizes, StackKey, ThreadPhase};

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
    /// The least age of blocks, in steps or rounds.
    pub least_steps: u64,
    /// The last step or round of the warm-up.
    pub warm_up_steps: u64,
    /// The loop whose rounds count; `None`: steps count.
    pub rounds: Option<LoopRounds>,
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
    ends: Ends<On>,
}

impl Survivors {
    /// Follows a capture for these options.
    pub fn new(asked: AskedLeaks) -> Self {
        Self {
            ends: Ends::from(asked.warm_up_steps),
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
        let until = replay.until().filter(|_| self.asked.moment != At::End);
        if until.is_some_and(|until| seq > until) {
            return;
        }
        if self.asked.rounds.is_none() && event.kind == EventKind::STEP {
            return self.step(replay.spans.steps);
        }
        self.ended_before(seq);
        if event.level == self.asked.level && self.asked.select.takes_device(event.device) {
            self.change(event.device, effect);
        }
        // So that the last event of the point in time ends its round.
        self.ended_before(Seq(seq.0.saturating_add(1)));
    }

    /// Ends the rounds of a loop that ended before an event.
    fn ended_before(&mut self, seq: Seq) {
        let rounds = self.asked.rounds.as_ref();
        let ended = rounds.map_or(0, |rounds| rounds.ended_before(seq));
        if ended > self.steps {
            self.step(ended);
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
            life.add(born, block);
            return;
        }
        let born = self.born.went(block).unwrap_or(BEFORE);
        life.live -= Figure::block(block.bytes);
        if let Some(figure) = life.births.get_mut(&born) {
            *figure -= Figure::block(block.bytes);
            if figure.blocks == 0 {
                life.births.remove(&born);
            }
        }
    }

    fn step(&mut self, ended: u64) {
        self.steps = ended;
        let lives = self.lives.iter();
        let live = || lives.map(|(on, life)| (*on, life.live));
        self.ends.end(ended, live);
    }

    /// Applies the state that a bounded capture has instead of the first records.
    fn restore(&mut self, replay: &Replay) {
        self.lives.clear();
        self.born.clear();
        self.ends = Ends::from(self.asked.warm_up_steps);
        self.steps = match self.asked.rounds {
            None => replay.spans.steps,
            Some(_) => 0,
        };
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
                    life.add(BEFORE, block);
                }
            }
        }
        self.step(self.steps);
    }

    /// The memory that is live at the point in time, after all records.
    pub fn leaks(&self, replay: &Replay) -> Leaks {
        let asked = &self.asked;
        let mut owners = Owners::new(replay, asked.level);
        let mut lines = Lines::new();
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
                    let ends = self.ends.of((*device, *key));
                    line.add((*key, life), ends, self.steps, &scale);
                    line.others |= stacks.purpose.phase() != ThreadPhase::Optimizer;
                    line.is_graph |= is_in_graph(replay, stacks);
                }
            }
        }
        let rows = lines.iter();
        let mut rows: Vec<LeakRow> = rows
            .map(|((device, owner), line)| self.row(*device, owner.clone(), line))
            .collect();
        let mismatches = self.compare(replay, &mut rows);
        rows.sort_by(LeakRow::in_order);
        let holder = holder(&rows, &lines);
        if let Some(holder) = &holder {
            holder.come_first(&mut rows);
        }
        Leaks {
            level: asked.level,
            steps: self.steps,
            round: asked.rounds.as_ref().map(|of| Place::of(Some(&of.begins))),
            warm_up_steps: asked.warm_up_steps,
            least_steps: asked.least_steps,
            bytes: rows.iter().map(|row| row.bytes).sum(),
            holder,
            rows,
            mismatches,
            begins: asked.rounds.as_ref().map(|of| of.begins.clone()),
        }
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
        let rows = self.leaks(replay).rows.into_iter();
        let growing = rows.filter(|row| row.class == Some(Class::Growing));
        let growing: BTreeSet<(Option<u8>, Owner)> =
            growing.map(|row| (row.device, row.owner)).collect();
        self.stacks(replay, |place, life| match growing.contains(&place) {
            true => life.all(),
            false => Figure::default(),
        })
    }

    /// The memory of blocks that survived, by stack.
    pub fn kept(&self, replay: &Replay) -> ByStack {
        self.stacks(replay, |_, life| {
            let old = life.births.iter().filter(|(born, _)| self.is_old(**born));
            old.map(|(_, figure)| figure).fold(Figure::default(), plus)
        })
    }

    /// Live memory of the requested part, by stack. `figure` selects it by its device and owner.
    fn stacks(
        &self,
        replay: &Replay,
        figure: impl Fn((Option<u8>, Owner), &Life) -> Figure,
    ) -> ByStack {
        let asked = &self.asked;
        let mut owners = Owners::new(replay, asked.level);
        let scales = self.scales(replay);
        let mut devices: BTreeMap<DeviceOrdinal, Vec<(StackKey, Figure)>> = BTreeMap::new();
        for ((device, key), life) in &self.lives {
            let (stacks, ordinal) = (replay.stacks(*key), ordinal(*device));
            let owner = owners.of(stacks);
            if !asked.select.takes(replay, stacks, asked.level, &owner) {
                continue;
            }
            let figure = figure((ordinal, owner), life);
            let figure = match scales.get(device) {
                Some(scale) => scale.of(stacks, figure),
                None => figure,
            };
            if figure.blocks > 0 {
                devices.entry(*device).or_default().push((stacks, figure));
            }
        }
        let on = |(device, figures)| DeviceStacks {
            device,
            figures,
            total: None,
        };
        ByStack {
            level: asked.level,
            devices: devices.into_iter().map(on).collect(),
        }
    }

    /// Whether enough steps have ended since.
    fn is_old(&self, born: u64) -> bool {
        let latest = born.max(self.known_from.saturating_sub(1)).max(1);
        self.steps.saturating_sub(latest).saturating_add(1) >= self.asked.least_steps
    }

    fn row(&self, device: DeviceOrdinal, owner: Owner, line: &Line) -> LeakRow {
        let all = line.births.values().fold(Figure::default(), plus);
        let old = line.births.iter().filter(|(born, _)| self.is_old(**born));
        let survived = old.clone().map(|(_, figure)| figure);
        let survived = survived.fold(Figure::default(), plus);
        let after_warm_up = old.filter(|(born, _)| **born > self.asked.warm_up_steps);
        let growth = Growth::of(&self.series(line));
        let needed = self
            .asked
            .warm_up_steps
            .saturating_add(self.asked.least_steps);
        let class = match after_warm_up.count() {
            _ if owner.is_workspace() => Class::Cache,
            _ if growth.is_growth && self.steps > needed => Class::Growing,
            _ if survived.blocks == 0 => Class::EndOnly,
            0 => Class::WarmUp,
            1 if !line.others => Class::WarmUp,
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
            bytes_per_step: growth.per_round,
            bytes_per_step_least: growth.range.0,
            bytes_per_step_most: growth.range.1,
            owner,
        }
    }

    /// The figures of a line at the ends of recorded steps, and of the last one.
    fn series(&self, line: &Line) -> Vec<(u64, Figure)> {
        let last = Some(self.steps).filter(|step| *step >= self.asked.warm_up_steps.max(1));
        let rounds = self.ends.rounds().iter().copied();
        let rounds = rounds.chain(last.filter(|last| self.ends.rounds().last() != Some(last)));
        let figure = |step| line.ends.get(&step).copied().unwrap_or_default();
        rounds.map(|step| (step, figure(step))).collect()
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
                let mut row = self.row(*device, Owner::Evicted, &line);
                row.class = row.class.map(|_| Class::WarmUp);
                rows.push(row);
            } else if total != sum {
                mismatches.push((*device, sum, total));
            }
        }
        mismatches
    }
}
