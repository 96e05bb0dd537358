//! What a round is: a step if any were marked, else a round of the outermost loop that holds most of what stays. After
//! the last step of a training, such as in its evaluation, a loop counts that holds much of all memory.

use gpumem_capture::{Event, EventKind, Level, Record, Seq};
use gpumem_replay::attribution::Owner;
use gpumem_replay::names::Names;
use gpumem_replay::{Category, Replay};

use crate::facts::{begins, is_the_programs, makes_weights};
use crate::rounds::Rounds;

/// The maximum number of loops that are followed.
const LOOPS: usize = 16;
/// A loop with fewer rounds is chosen only if no other has as many, and not if each allocation of a line is a round.
const ENOUGH: u64 = 6;

/// What a round is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RoundOf {
    /// A step of a training.
    Step,
    /// A round of the loop with this number.
    Loop(usize),
}

/// A loop that is followed.
#[derive(Clone, Copy, Debug)]
struct Followed {
    at: usize,
    /// The start of its second round.
    first: Seq,
    /// The bytes of its stacks that were live at the end of one of its rounds, without weights.
    bytes: u64,
    /// Whether these were much of all live bytes.
    is_much: bool,
}

/// Follows a capture's records to find its rounds.
#[derive(Debug)]
pub struct RoundClock {
    level: Level,
    has_steps: bool,
    /// Allocations since the last step, and in the longest one.
    since_step: u64,
    longest_step: u64,
    rounds: Rounds,
    loops: Vec<Followed>,
    /// The number of the first loop: those of the driver's blocks have other numbers than those of tensors.
    base: usize,
    /// The newest allocation.
    newest: Seq,
}

impl Default for RoundClock {
    fn default() -> Self {
        Self {
            level: Level::DRIVER,
            has_steps: false,
            since_step: 0,
            longest_step: 0,
            rounds: Rounds::default(),
            loops: Vec::new(),
            base: 0,
            newest: Seq(0),
        }
    }
}

impl RoundClock {
    /// Observes a record after the replay has. If a round has ended, returns what it is a round of, and its number. A
    /// round of a loop ends just before the allocation of this record.
    pub fn observe(&mut self, replay: &Replay, record: Record<'_>) -> Option<(RoundOf, u64)> {
        let (seq, event) = match record {
            Record::Event(seq, event) => (seq, event),
            Record::Definition(..) => return None,
            Record::State(..) => {
                *self = Self {
                    has_steps: replay.spans.steps > 0,
                    ..Self::default()
                };
                return None;
            }
        };
        match event.kind {
            EventKind::STEP => {
                self.has_steps = true;
                self.longest_step = self.longest_step.max(self.since_step);
                self.since_step = 0;
                self.begin(Level::DRIVER);
                Some((RoundOf::Step, replay.spans.steps))
            }
            EventKind::ALLOC if !self.is_in_step(event) => {
                let at = self.allocate(replay, seq, event)?;
                self.follow(replay, at, seq, event)?;
                Some((
                    RoundOf::Loop(self.base + at),
                    self.rounds.loops()[at].round() - 1,
                ))
            }
            _ => None,
        }
    }

    /// Whether rounds of this are still counted.
    pub fn follows(&self, of: RoundOf) -> bool {
        match of {
            RoundOf::Step => self.has_steps,
            RoundOf::Loop(number) => self.loops.iter().any(|of| self.base + of.at == number),
        }
    }

    /// What a round is, as far as the records show; `None` without steps and loops.
    pub fn choose(&self) -> Option<RoundOf> {
        match self.has_steps {
            true => self.outermost(false).or(Some(RoundOf::Step)),
            // One round may allocate several times at a line.
            false => self.outermost(false).or_else(|| self.outermost(true)),
        }
    }

    /// The outermost loop that runs through most of the capture, and holds most of what stays.
    fn outermost(&self, is_line: bool) -> Option<RoundOf> {
        let of = |at: &Followed| &self.rounds.loops()[at.at];
        let newest = |at: &Followed| of(at).newest().map_or(0, |start| start.seq.0);
        let length = |at: &Followed| newest(at).saturating_sub(at.first.0);
        let loops = self.loops.iter().filter(|at| {
            let least = if is_line || self.has_steps { ENOUGH } else { 0 };
            of(at).is_line == is_line
                && of(at).round() >= least
                && at.bytes > 0
                && (at.is_much || !self.has_steps)
                && newest(at) >= self.newest.0 / 2
        });
        let longest = loops.clone().map(length).max()?;
        let loops = loops.filter(|at| length(at) >= longest / 2);
        let most = loops.clone().map(|at| at.bytes).max()?;
        let loops = loops.filter(|at| at.bytes >= most / 2);
        let outermost = loops.min_by_key(|at| {
            let of = of(at);
            (of.round() < ENOUGH, of.depth, of.first)
        });
        outermost.map(|of| RoundOf::Loop(self.base + of.at))
    }

    /// The rounds of the loop that was chosen, if a round is one of a loop.
    pub fn rounds(&self, names: &Names) -> Option<LoopRounds> {
        let Some(RoundOf::Loop(number)) = self.choose() else {
            return None;
        };
        let of = &self.rounds.loops()[number - self.base];
        let starts = of.starts().iter();
        Some(LoopRounds {
            begins: begins(names, of)?,
            starts: starts.map(|start| (start.round, start.seq)).collect(),
        })
    }

    /// Whether an allocation may belong to a step: after the last one, more follow than in any step. Counts it.
    fn is_in_step(&mut self, event: &Event) -> bool {
        let is_tensor = event.level == Level::TENSOR;
        self.since_step += u64::from(is_tensor && self.has_steps);
        self.has_steps && (!is_tensor || self.since_step <= self.longest_step)
    }

    /// Begins to look for loops of blocks of a level.
    fn begin(&mut self, level: Level) {
        *self = Self {
            level,
            base: self.base + self.rounds.loops().len(),
            rounds: Rounds::default(),
            loops: Vec::new(),
            newest: Seq(0),
            ..*self
        };
    }

    /// Tensors count, or the driver's blocks before the first tensor.
    fn allocate(&mut self, replay: &Replay, seq: Seq, event: &Event) -> Option<usize> {
        if event.level == Level::TENSOR && self.level != Level::TENSOR {
            self.begin(Level::TENSOR);
        }
        if event.level != self.level {
            return None;
        }
        self.newest = seq;
        let stack = (event.thread, event.py_stack);
        self.rounds.reach(&replay.names, stack, (seq, 0))
    }

    /// Follows a loop whose next round has just begun with an allocation; `None` if it is not followed.
    fn follow(&mut self, replay: &Replay, at: usize, seq: Seq, event: &Event) -> Option<()> {
        let of = &self.rounds.loops()[at];
        let ended = of.round() - 1;
        let known = self.loops.iter().position(|of| of.at == at);
        if known.is_none() && (ended > 1 || !is_the_programs(&replay.names, of.code)) {
            return None;
        }
        if !(ended.is_power_of_two() || self.has_steps && ended.is_multiple_of(ENOUGH)) {
            return known.map(drop);
        }
        let bytes = self
            .bytes(replay, at, event.level)
            .saturating_sub(event.bytes);
        let devices = replay.devices.keys();
        let live = devices.map(|device| replay.counters(*device, event.level).live);
        let now = Followed {
            at,
            first: known.map_or(seq, |known| self.loops[known].first),
            bytes,
            is_much: bytes >= live.sum::<u64>() / 5 * 2,
        };
        match known {
            Some(known) => self.loops[known] = now,
            None => {
                self.make_room(seq);
                self.loops.push(now);
            }
        }
        Some(())
    }

    /// Live bytes of a loop's stacks, without weights.
    fn bytes(&self, replay: &Replay, at: usize, level: Level) -> u64 {
        let of = &self.rounds.loops()[at];
        let rows = replay.levels.iter().filter(|((_, on), _)| *on == level);
        let stacks = rows.flat_map(|(_, row)| row.live());
        let stacks = stacks.filter(|(key, figure)| {
            let stacks = replay.stacks(*key);
            let category = stacks.purpose.category();
            figure.bytes > 0
                && !matches!(category, Category::Parameter | Category::Workspace)
                && self.rounds.known_path(stacks.py).is_some_and(|path| {
                    let calls = path.site().iter().filter(|step| step.code == of.code);
                    // The calls of a function that calls itself are no rounds.
                    of.contains(path) && calls.count() == 1
                })
                && !makes_weights(&replay.names, stacks.py)
        });
        stacks.map(|(_, figure)| figure.bytes).sum()
    }

    /// Stops following the loop that has not gone round for the longest time, compared with its rounds so far.
    fn make_room(&mut self, now: Seq) {
        if self.loops.len() < LOOPS {
            return;
        }
        let overdue = |(_, at): &(usize, &Followed)| {
            let of = &self.rounds.loops()[at.at];
            let newest = of.newest().map_or(at.first, |start| start.seq);
            let length = (newest.0 - at.first.0).max(1) / of.round();
            (now.0 - newest.0) / length.max(1)
        };
        let oldest = self.loops.iter().enumerate().max_by_key(overdue);
        if let Some((oldest, _)) = oldest {
            self.loops.swap_remove(oldest);
        }
    }
}

/// The rounds of a loop.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoopRounds {
    /// The line at which a round begins.
    pub begins: Owner,
    /// Round and first event of each, from the second one on; of the older ones of a long run, only some.
    starts: Vec<(u64, Seq)>,
}

impl LoopRounds {
    /// The number of rounds that ended before an event, or began with it.
    pub fn ended_before(&self, seq: Seq) -> u64 {
        let after = self.starts.partition_point(|(_, start)| *start <= seq);
        after.checked_sub(1).map_or(0, |at| self.starts[at].0 - 1)
    }

    /// The last event of the newest round that ended.
    pub fn last(&self) -> Option<Seq> {
        let (_, start) = self.starts.last()?;
        start.0.checked_sub(1).map(Seq)
    }
}

#[cfg(test)]
mod tests;
