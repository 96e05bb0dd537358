//! Compares generated programs with a model that sees their whole history at once. Compared are each block's category,
//! and the figures by category: at the end, at the peaks, at any event, of a step, of sizes and of a state taken on the
//! way.
//!
//! The test fails if a rule changes, a block moves without its figures, or a role outlives its block.

mod model;
mod program;

use std::collections::BTreeMap;

use gpumem_capture::{DeviceOrdinal, EventKind, Level, Record, Seq, StateSink};
use gpumem_replay::{
    At, BoundedReplay, Category, Figure, Query, Replay, Sampling, Sizes, StackKey, share_out,
};

use model::{Base, Life, lives};
use program::Program;

const PROGRAMS: u64 = 600;
const DEVICES: [DeviceOrdinal; 2] = [DeviceOrdinal(0), DeviceOrdinal(1)];

type Figures = BTreeMap<(Base, Category), Figure>;

fn name(key: StackKey) -> (Base, Category) {
    let base = Base {
        py: key.py,
        phase: key.purpose.phase() as u8,
        is_workspace: key.purpose.is_workspace(),
        is_no_grad: key.purpose.is_no_grad(),
        is_before_forward: key.purpose.is_before_forward(),
    };
    (base, key.purpose.category())
}

fn named(figures: Vec<(StackKey, Figure)>) -> Figures {
    let figures = figures.into_iter();
    figures.map(|(key, figure)| (name(key), figure)).collect()
}

/// The figures of some blocks, as the replay must return them.
fn sum<'a>(replay: &Replay, blocks: impl Iterator<Item = &'a Life>) -> Figures {
    let keys: BTreeMap<_, _> = replay.keys.iter().map(|key| (name(*key), *key)).collect();
    let mut sums: BTreeMap<StackKey, [Figure; 2]> = BTreeMap::new();
    let mut missing = Figures::new();
    for block in blocks {
        let name = (block.base, block.category);
        let Some(key) = keys.get(&name) else {
            *missing.entry(name).or_default() += Figure::block(block.bytes);
            continue;
        };
        let [own, unseen] = sums.entry(*key).or_default();
        *own += Figure::block(block.bytes);
        let has_stacks = !key.is_not_sampled();
        if let Some(sampling) = replay.sampling.filter(|_| has_stacks) {
            *unseen += Sampling::unseen(sampling, block.bytes);
        }
    }
    let sums = sums.into_iter();
    let mut figures: Vec<_> = sums
        .map(|(key, [own, unseen])| (key, own, unseen))
        .collect();
    if replay.sampling.is_some() {
        share_out(&mut figures);
    }
    missing.extend(figures.into_iter().map(|(key, own, _)| (name(key), own)));
    missing
}

fn by_category(figures: &Figures) -> BTreeMap<Category, u64> {
    let mut sums = BTreeMap::new();
    for ((_, category), figure) in figures {
        *sums.entry(*category).or_default() += figure.bytes;
    }
    sums
}

impl Program {
    fn define(&self, to: &mut dyn FnMut(Record<'_>)) {
        for definition in &self.definitions {
            to(Record::Definition(Seq(0), definition));
        }
    }

    fn feed(&self, replay: &mut Replay) {
        self.define(&mut |record| {
            replay.feed(record);
        });
        for (seq, event) in (1..).map(Seq).zip(&self.events) {
            replay.feed(Record::Event(seq, event));
        }
        replay.settle_categories();
    }

    fn replayed(&self, query: impl Into<Query>) -> Replay {
        let mut replay = Replay::new(query);
        self.feed(&mut replay);
        replay
    }

    /// The first event at which a device held most, by a rank.
    fn peak<T: Ord + Default>(&self, rank: impl Fn(u64) -> T) -> u64 {
        let mut most = (T::default(), 0);
        for seq in 1..=self.events.len() as u64 {
            let now = rank(seq);
            if now > most.0 {
                most = (now, seq);
            }
        }
        most.1
    }

    fn driver(&self, device: DeviceOrdinal, seq: u64) -> u64 {
        let events = self.events[..seq as usize].iter();
        let driver = events.filter(|it| (it.device, it.level) == (device, Level::DRIVER));
        driver.map(|it| it.bytes).sum()
    }

    /// The number of steps that ended before an event.
    fn steps_before(&self, seq: u64) -> usize {
        let events = self.events[..seq as usize - 1].iter();
        events.filter(|it| it.kind == EventKind::STEP).count()
    }
}

fn live_at(lives: &[Life], device: DeviceOrdinal, seq: u64) -> impl Iterator<Item = &Life> {
    let of = lives.iter().filter(move |life| life.device == device);
    of.filter(move |life| life.is_live_after(seq))
}

fn bytes_at(lives: &[Life], device: DeviceOrdinal, seq: u64) -> u64 {
    live_at(lives, device, seq).map(|life| life.bytes).sum()
}

fn programs() -> impl Iterator<Item = (u64, Program, Vec<Life>)> {
    (1..=PROGRAMS).map(|seed| {
        let program = Program::of(seed);
        let lives = lives(&program.events);
        (seed, program, lives)
    })
}

fn tensors(replay: &Replay, device: DeviceOrdinal, at: At) -> Figures {
    named(replay.figures(device, Level::TENSOR, at))
}

#[test]
fn figures_by_category_are_those_of_the_blocks_at_the_end_and_at_both_peaks() {
    let mut seen = BTreeMap::<Category, usize>::new();
    for (seed, program, lives) in programs() {
        let replay = program.replayed(Query::keeping_peaks());
        let last = program.events.len() as u64;
        for device in DEVICES {
            let expect = |seq| sum(&replay, live_at(&lives, device, seq));
            let live = |seq| bytes_at(&lives, device, seq);
            let at = |moment| tensors(&replay, device, moment);
            assert_eq!(at(At::End), expect(last), "program {seed}: at the end");
            let level = program.peak(live);
            assert_eq!(at(At::Peak), expect(level), "program {seed}: at the peak");
            let total = replay.total(device, Level::TENSOR, At::Peak);
            let sum_of_all: u64 = by_category(&at(At::Peak)).values().sum();
            assert_eq!((sum_of_all, total), (live(level), live(level)));
            let both = program.peak(|seq| (live(seq), program.driver(device, seq)));
            let found = named(replay.figures_at_device_peak(device, Level::TENSOR));
            assert_eq!(found, expect(both), "program {seed}: at the device's peak");
            let found = named(replay.allocated(device, Level::TENSOR));
            let all = lives.iter().filter(|life| life.device == device);
            assert_eq!(
                found,
                sum(&replay, all),
                "program {seed}: over the whole run"
            );
        }
        for life in lives {
            *seen.entry(life.category).or_default() += 1;
        }
    }
    for category in Category::ALL {
        assert!(seen[&category] > 300, "{seen:?}");
    }
}

#[test]
fn at_any_event_figures_are_those_of_the_blocks_as_what_they_turned_out_to_be() {
    for (seed, mut program, lives) in programs() {
        for _ in 0..3 {
            let seq = 1 + program.below(program.events.len() as u64);
            let moment = At::Event(Seq(seq));
            let replay = program.replayed(moment);
            for device in DEVICES {
                let found = tensors(&replay, device, moment);
                let expected = sum(&replay, live_at(&lives, device, seq));
                assert_eq!(found, expected, "program {seed}: at event {seq}");
                let total = replay.total(device, Level::TENSOR, moment);
                assert_eq!(by_category(&found).values().sum::<u64>(), total);
            }
        }
    }
}

#[test]
fn a_block_that_ends_is_what_it_was_for() {
    for (seed, program, lives) in programs() {
        let mut replay = Replay::default();
        program.define(&mut |record| {
            replay.feed(record);
        });
        for (seq, event) in (1..).map(Seq).zip(&program.events) {
            replay.feed(Record::Event(seq, event));
            if event.kind == EventKind::FREE {
                let life = lives.iter().find(|life| life.end == Some(seq.0));
                let category = life.map(|life| life.category);
                assert_eq!(
                    Some(replay.newest_ended),
                    category,
                    "program {seed}: {seq:?}"
                );
            }
        }
    }
}

#[test]
fn of_a_step_and_of_sizes_only_blocks_of_those_count() {
    for (seed, mut program, lives) in programs() {
        let last = program.events.len() as u64;
        let step = program.below(program.steps_before(last) as u64 + 1) + 1;
        let of_step = program.replayed(Query {
            step: Some(step),
            ..Query::default()
        });
        let least = program.below(3000);
        let sizes = Sizes {
            least,
            most: least + 700,
        };
        let of_sizes = program.replayed(Query {
            sizes,
            ..Query::default()
        });
        for device in DEVICES {
            let in_step = |life: &&Life| program.steps_before(life.begin) as u64 == step - 1;
            let made = |seq| live_at(&lives, device, seq).filter(in_step);
            let bytes = |seq| made(seq).map(|life| life.bytes).sum::<u64>();
            for (moment, seq) in [(At::End, last), (At::Peak, program.peak(bytes))] {
                let found = tensors(&of_step, device, moment);
                let expected = sum(&of_step, made(seq));
                assert_eq!(found, expected, "program {seed}: step {step}, {moment:?}");
            }
            let peak = program.peak(|seq| bytes_at(&lives, device, seq));
            for (moment, seq) in [(At::End, last), (At::Peak, peak)] {
                let blocks = live_at(&lives, device, seq).filter(|it| sizes.take(it.bytes));
                let found = tensors(&of_sizes, device, moment);
                let expected = sum(&of_sizes, blocks);
                assert_eq!(found, expected, "program {seed}: {sizes:?}, {moment:?}");
            }
        }
    }
}

#[test]
fn figures_that_are_counted_are_those_that_are_followed() {
    let mut compared = 0;
    for (seed, program, _) in programs() {
        let mut followed = Replay::new(At::End);
        let mut counted = Replay::new(Query::without_figures());
        program.define(&mut |record| {
            followed.feed(record);
            counted.feed(record);
        });
        for (seq, event) in (1..).map(Seq).zip(&program.events) {
            followed.feed(Record::Event(seq, event));
            counted.feed(Record::Event(seq, event));
            if !counted.counts_as_followed() {
                break;
            }
            for (device, level) in DEVICES
                .into_iter()
                .flat_map(|device| [Level::TENSOR, Level::DRIVER].map(|level| (device, level)))
            {
                let found = named(counted.counted_figures(device, level));
                let expected = named(followed.figures(device, level, At::End));
                assert_eq!(found, expected, "program {seed}: after {seq:?}");
                compared += found.len();
            }
        }
    }
    assert!(compared > 1000, "{compared}");
}

#[test]
fn a_state_taken_on_the_way_changes_nothing() {
    for (seed, mut program, lives) in programs() {
        let last = program.events.len() as u64;
        let until = program.below(last) as usize;
        let mut first = BoundedReplay::default();
        program.define(&mut |record| first.take(record));
        let mut state = Vec::new();
        for (seq, event) in (1..).map(Seq).zip(&program.events[..until]) {
            first.take(Record::Event(seq, event));
        }
        first.state(usize::MAX, &mut state);
        let mut replay = Replay::new(Query::keeping_peaks());
        replay.feed(Record::State(Seq(until as u64 + 1), &state));
        assert!(replay.restored.is_some_and(|it| it.is_readable));
        let rest = program.events[until..].iter();
        for (seq, event) in (until as u64 + 1..).map(Seq).zip(rest) {
            replay.feed(Record::Event(seq, event));
        }
        replay.settle_categories();
        for device in DEVICES {
            let peak = program.peak(|seq| bytes_at(&lives, device, seq));
            for (moment, seq) in [(At::End, last), (At::Peak, peak)] {
                let found = tensors(&replay, device, moment);
                let expected = sum(&replay, live_at(&lives, device, seq));
                assert_eq!(found, expected, "program {seed}: from {until}, {moment:?}");
            }
        }
    }
}
