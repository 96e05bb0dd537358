//! The bytes of each stack over the rounds of its loop, up to a failure.
//!
//! A stack belongs to a site: the frames outside the outermost function named forward, or all frames without such a
//! function. A round of a site begins when the program reaches the site from another one, or after a mark of a phase
//! or step. So the layers of one forward are not rounds. A line that is alone in its loop has no such rounds; its own
//! allocations are counted instead.

use gpumem_capture::{
    DeviceOrdinal, Event, EventKind, Level, Phase, Record, Seq, StackId, ThreadId,
};
use rustc_hash::FxHashMap;

use super::places::{self, Place};
use super::series::{Point, Series};
use crate::replay::{Block, Effect, Figure, KeyId, Reading, Replay, StackKey};
use crate::views::ledger::{Pool, pool_now};

/// A site, and how often the program reached it.
#[derive(Clone, Debug, Default)]
pub(super) struct Site {
    /// Rounds so far.
    pub rounds: u64,
    /// How many of them had a backward since the one before.
    pub with_backward: u64,
    /// The number of backwards when the newest round began.
    backwards: u64,
    /// Allocations of the device when the first round began, and at the site's newest allocation.
    first: u64,
    newest: u64,
}

impl Site {
    /// The average number of allocations of the device in a round, rounded up.
    fn round_length(&self) -> u64 {
        (self.newest - self.first).div_ceil(self.rounds.max(2) - 1)
    }
}

/// The bytes of a stack.
#[derive(Clone, Debug, Default)]
pub(super) struct Held {
    /// Whether the other fields are set.
    is_known: bool,
    pub place: Place,
    site: u32,
    pub live: Figure,
    /// Its first allocation.
    pub first: Seq,
    allocations: u64,
    /// The number of the device's allocations at the stack's first and newest one.
    counts: (u64, u64),
    /// The site's round in which it was last noted.
    noted: u64,
    rounds: Series,
    own: Series,
}

/// How a stack grew.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Growth {
    /// Rounds, or the stack's own allocations.
    pub rounds: u64,
    /// Whether they are rounds of a loop.
    pub is_loop: bool,
    /// How many of them had a backward since the one before.
    pub with_backward: u64,
    pub first: Point,
    pub last: Point,
}

/// The figures of the device at the failure.
#[derive(Clone, Debug, Default)]
pub(super) struct Moment {
    /// Live tensors, and reserved bytes of the framework.
    pub tensor: u64,
    pub reserved: u64,
    /// Live bytes of the level whose lines are shown.
    pub live: u64,
    /// The physical level of this process.
    pub physical: u64,
    /// The newest reading before the failure, or the first after it.
    pub reading: Option<Reading>,
    /// The pool with its segments.
    pub pool: Option<Pool>,
    /// The last request to the driver.
    pub refused: Option<u64>,
}

/// Follows a capture up to a failure.
pub(super) struct Course {
    until: Seq,
    device: DeviceOrdinal,
    level: Level,
    held: Vec<Held>,
    sites: Vec<Site>,
    numbers: FxHashMap<Vec<(u32, i32)>, u32>,
    /// The site of each thread's latest allocation.
    at: FxHashMap<ThreadId, u32>,
    backwards: u64,
    allocations: u64,
    refused: Option<u64>,
    pub moment: Option<Moment>,
    /// Whether nothing was loaded or allocated since the failure.
    is_at_failure: bool,
}

impl Course {
    pub fn new(until: Seq, device: DeviceOrdinal, level: Level) -> Self {
        Self {
            until,
            device,
            level,
            held: Vec::new(),
            sites: Vec::new(),
            numbers: FxHashMap::default(),
            at: FxHashMap::default(),
            backwards: 0,
            allocations: 0,
            refused: None,
            moment: None,
            is_at_failure: true,
        }
    }

    /// Observes a record after the replay has.
    pub fn observe(&mut self, replay: &Replay, record: Record<'_>, effect: Effect) {
        let (seq, event) = match record {
            Record::Event(seq, event) => (seq, event),
            Record::State(..) => return self.restore(replay),
            Record::Definition(..) => return,
        };
        if seq > self.until {
            self.taken_before(event);
            return self.reading_after(replay);
        }
        match event.kind {
            EventKind::PHASE_BEGIN | EventKind::PHASE_END | EventKind::STEP => {
                let begins = event.kind == EventKind::PHASE_BEGIN;
                self.backwards += u64::from(begins && event.aux == Phase::BACKWARD.0);
                self.at.remove(&event.thread);
            }
            EventKind::OUT_OF_MEMORY if event.device == self.device => {
                if event.level == Level::DRIVER {
                    self.refused = Some(event.bytes);
                }
                if seq == self.until {
                    self.moment = Some(self.moment_now(replay));
                }
            }
            _ if event.level == self.level && event.device == self.device => match effect {
                Effect::Live(block) => self.came(replay, seq, event.thread, block),
                Effect::Gone(block) => self.went(block),
                Effect::None => {}
            },
            _ => {}
        }
    }

    fn came(&mut self, replay: &Replay, seq: Seq, thread: ThreadId, block: Block) {
        self.allocations += 1;
        let at = self.held_at(replay, block.key);
        let (site, count) = (self.held[at].site, self.allocations);
        let of = &mut self.sites[site as usize];
        if self.at.insert(thread, site) != Some(site) {
            of.rounds += 1;
            of.with_backward += u64::from(self.backwards > of.backwards);
            of.backwards = self.backwards;
            if of.rounds == 1 {
                of.first = count;
            }
        }
        of.newest = count;
        let (rounds, held) = (of.rounds, &mut self.held[at]);
        let point = |round| Point {
            round,
            bytes: held.live.bytes,
            blocks: held.live.blocks,
        };
        let (by_round, own) = (point(rounds), point(held.allocations));
        if held.noted != rounds {
            held.noted = rounds;
            held.rounds.push(by_round);
        }
        if held.allocations == 0 {
            (held.first, held.counts.0) = (seq, count);
        }
        held.own.push(own);
        held.allocations += 1;
        held.counts.1 = count;
        held.live += Figure::block(block.bytes);
    }

    fn went(&mut self, block: Block) {
        if let Some(held) = self.held.get_mut(block.key.0 as usize) {
            held.live -= Figure::block(block.bytes);
        }
    }

    /// Applies the state that a bounded capture has instead of the first records.
    fn restore(&mut self, replay: &Replay) {
        let row = replay.levels.get(&(self.device, self.level));
        let blocks: Vec<Block> = row
            .into_iter()
            .flat_map(|row| row.live_blocks().map(|(_, block)| block))
            .collect();
        self.held.clear();
        for block in blocks {
            let key = replay.key_of_all_categories(block.key);
            let at = self.held_at(replay, key);
            self.held[at].live += Figure::block(block.bytes);
        }
    }

    fn held_at(&mut self, replay: &Replay, key: KeyId) -> usize {
        let at = key.0 as usize;
        if self.held.len() <= at {
            self.held.resize(at + 1, Held::default());
        }
        if !self.held[at].is_known {
            let stacks = replay.stacks(key);
            let site = places::site(&replay.names, stacks.py);
            let next = self.sites.len() as u32;
            let number = *self.numbers.entry(site).or_insert(next);
            if number == next {
                self.sites.push(Site::default());
            }
            let held = &mut self.held[at];
            held.is_known = true;
            held.place = places::place(&replay.names, stacks);
            held.site = number;
        }
        at
    }

    fn moment_now(&self, replay: &Replay) -> Moment {
        let device = replay.devices.get(&self.device);
        let now = device.map(|device| device.now).unwrap_or_default();
        Moment {
            tensor: now.tensor,
            reserved: now.reserved.unwrap_or(0),
            live: replay.counters(self.device, self.level).live,
            physical: now.physical,
            reading: device.and_then(|device| device.readings.best()),
            pool: pool_now(replay, self.device),
            refused: self.refused,
        }
    }

    /// The memory of loaded kernels is measured at the first reading after they were loaded, possibly only after the
    /// failure. It is attributed to the time before the failure unless something else was loaded, unloaded or
    /// allocated since.
    fn taken_before(&mut self, event: &Event) {
        let Some(moment) = self.moment.as_mut().filter(|_| self.is_at_failure) else {
            return;
        };
        match event.kind {
            EventKind::RESIZE if event.device == self.device => {
                let taken = event.bytes.saturating_sub(event.aux);
                moment.physical = moment.physical.saturating_add(taken);
                self.is_at_failure = taken > 0;
            }
            EventKind::ALLOC | EventKind::MODULE_LOAD | EventKind::CONTEXT => {
                self.is_at_failure = event.level == Level::TENSOR;
            }
            _ => {}
        }
    }

    fn reading_after(&mut self, replay: &Replay) {
        if let Some(moment) = self.moment.as_mut().filter(|of| of.reading.is_none()) {
            let device = replay.devices.get(&self.device);
            moment.reading = device.and_then(|device| device.readings.last);
        }
    }

    /// The bytes of each stack at the failure.
    pub fn held(&self, replay: &Replay) -> impl Iterator<Item = (StackKey, &Held)> {
        let all = self.held.iter().enumerate();
        let live = all.filter(|(_, held)| held.live.bytes > 0);
        live.map(|(at, held)| (replay.stacks(KeyId(at as u32)), held))
    }

    /// How a stack grew up to the failure, which has the stack `failed`. A stack that stopped growing before the
    /// failure does not count.
    pub fn growth(&self, stack: StackId, held: &Held, failed: StackId) -> Option<Growth> {
        let site = self.sites.get(held.site as usize)?;
        let length = site.round_length();
        let is_near =
            |newest: u64, length: u64| self.allocations - newest <= length + length / 2 + 1;
        if let Some((first, last)) = held
            .rounds
            .growth()
            .filter(|_| is_near(site.newest, length))
        {
            return Some(Growth {
                rounds: site.rounds,
                is_loop: true,
                with_backward: site.with_backward,
                first,
                last,
            });
        }
        let (first, last) = held.own.growth()?;
        let length = (held.counts.1 - held.counts.0).div_ceil(held.allocations.max(2) - 1);
        // The layers of a forward also grow like this, but not if the number of blocks stays the same and only their
        // size grows.
        let is_replaced = last.blocks <= first.blocks + 1;
        let is_list = held.place == Place::Elsewhere && stack == failed;
        ((is_replaced || is_list) && is_near(held.counts.1, length)).then_some(Growth {
            rounds: held.allocations,
            is_loop: false,
            with_backward: 0,
            first,
            last,
        })
    }
}
