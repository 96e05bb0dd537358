//! Lines whose memory grows from round to round.

use std::collections::BTreeMap;

use gpumem_capture::{DeviceOrdinal, EventKind, Level, Record};
use gpumem_judge::{Ends, Growth, KeptEach, LoopRounds, RoundClock, RoundOf};
use rustc_hash::FxHashMap;

use super::figures::{Figures, NUMBERED, is_in_graph};
use crate::attribution::Owner;
use crate::replay::{Effect, Figure, Replay};
use crate::views::block_events::On;
use crate::views::by_stack::Owners;

/// The first round is the warm-up.
const WARM_UP: u64 = 1;

/// The memory of tensors by stack, at the ends of some rounds: of the steps, or of each loop that may turn out to be
/// the one whose rounds count.
#[derive(Debug, Default)]
pub(super) struct Growing {
    clock: RoundClock,
    ends: FxHashMap<RoundOf, Ends<On>>,
}

/// The growth on a device.
pub(super) struct Grown {
    /// The rounds between which it grew.
    pub rounds: (u64, u64),
    /// The loop whose rounds they are; `None`: steps.
    pub of_loop: Option<Owner>,
    /// The growth in each round.
    pub growth: Growth,
    /// The whole growth, by stack.
    pub figures: Figures,
    /// The line whose tensor probably keeps the memory alive, and its live memory.
    pub holder: Option<(Owner, Figure)>,
}

impl Growing {
    /// Observes a record after the replay has.
    pub fn observe(&mut self, replay: &Replay, record: Record<'_>, effect: Effect) {
        let Some((of, round)) = self.clock.observe(replay, record) else {
            return;
        };
        if !self.ends.contains_key(&of) {
            self.ends.retain(|of, _| self.clock.follows(*of));
        }
        let ends = self.ends.entry(of).or_insert_with(|| Ends::from(WARM_UP));
        ends.end(round, || {
            // The categories of a stack's blocks may become known between two rounds.
            let mut now: FxHashMap<On, Figure> = FxHashMap::default();
            let tensors = replay.levels.iter();
            for ((device, _), row) in tensors.filter(|((_, of), _)| *of == Level::TENSOR) {
                for (key, figure) in row.live().filter(|(_, figure)| figure.bytes > 0) {
                    let key = replay.key_of_all_categories(key);
                    *now.entry((*device, key)).or_default() += figure;
                }
            }
            // The block with which the next round of a loop begins is not of this one.
            if let (Effect::Live(block), Record::Event(_, event)) = (effect, record)
                && event.kind == EventKind::ALLOC
                && let Some(figure) = now.get_mut(&(event.device, block.key))
            {
                *figure -= Figure::block(block.bytes);
            }
            now
        });
    }

    /// The loop whose rounds count, if no steps do.
    pub fn rounds(&self, replay: &Replay) -> Option<LoopRounds> {
        self.clock.rounds(&replay.names)
    }

    /// The growth of a device up to the last round. `graphs`: of memory that forwards allocated in a program that builds
    /// graphs, or of all other.
    pub fn of(&self, replay: &Replay, device: DeviceOrdinal, graphs: bool) -> Option<Grown> {
        let ends = self.ends.get(&self.clock.choose()?)?;
        let rounds = (*ends.rounds().first()?, *ends.rounds().last()?);
        let lines = lines(replay, ends, device);
        let (mut growth, mut figures) = (Growth::default(), Figures::new());
        for line in lines.iter().filter(|line| line.is_graph == graphs) {
            growth += line.growth;
            for on in &line.keys {
                let series = ends.sum(&[*on]);
                let (first, mut grown) = (series.first()?.1, series.last()?.1);
                grown -= first;
                if grown.bytes > 0 {
                    figures.push((replay.stacks(on.1), grown));
                }
            }
        }
        let kept = lines.iter().map(|line| {
            // Other stacks of the line may come later in a round, and keep nothing.
            let grows = |on: &&On| Growth::of(&ends.sum(&[**on])).is_growth;
            let newest = line.keys.iter().filter(grows).map(|(_, key)| key.0).max();
            KeptEach {
                bytes: line.live.bytes,
                rounds: line.live.blocks.min(rounds.1 - rounds.0),
                place: newest.map_or(0, u64::from),
            }
        });
        let holder = KeptEach::holder(&kept.collect::<Vec<_>>()).filter(|_| graphs);
        (!figures.is_empty()).then(|| Grown {
            rounds,
            of_loop: self.rounds(replay).map(|of| of.begins),
            growth,
            figures,
            holder: holder.map(|at| (lines[at].owner.clone(), lines[at].live)),
        })
    }
}

/// A line that grows.
struct Line {
    owner: Owner,
    is_graph: bool,
    keys: Vec<On>,
    growth: Growth,
    live: Figure,
}

fn lines(replay: &Replay, ends: &Ends<On>, device: DeviceOrdinal) -> Vec<Line> {
    let builds = replay.names.calls_of(NUMBERED).is_some_and(|n| n > 0);
    let mut owners = Owners::new(replay, Level::TENSOR);
    let mut lines: BTreeMap<(Owner, bool), Vec<On>> = BTreeMap::new();
    for on in ends.keys().filter(|(of, _)| *of == device) {
        let stacks = replay.stacks(on.1);
        if !stacks.purpose.is_workspace() {
            let is_graph = builds && is_in_graph(replay, stacks);
            let line = (owners.of(stacks), is_graph);
            lines.entry(line).or_default().push(on);
        }
    }
    let lines = lines.into_iter().filter_map(|((owner, is_graph), keys)| {
        let series = ends.sum(&keys);
        let growth = Growth::of(&series);
        growth.is_growth.then(|| Line {
            owner,
            is_graph,
            growth,
            live: series.last().map_or(Figure::default(), |(_, live)| *live),
            keys,
        })
    });
    lines.collect()
}
