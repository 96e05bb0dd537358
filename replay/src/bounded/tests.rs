use gpumem_capture::{
    ApiId, CodeId, Definition, DeviceOrdinal, Event, EventFlags, EventKind, Nanos, PyFrame, Seq,
    StackId, ThreadId,
};

mod growth;

use super::*;
use crate::later_growth::LaterGrowth;
use crate::{At, Figure, Query};
use growth::{growth_of, named};

/// A program generated from a seed, with all kinds of events on two devices.
struct Program {
    random: u64,
    live: Vec<(DeviceOrdinal, gpumem_capture::Level, u64, u64, EventFlags)>,
    freed: Vec<(Seq, Event)>,
    seq: u64,
    stacks: u32,
    /// Whether its reservations are contexts and modules, not pools.
    code: bool,
    /// Records as they were fed.
    records: Vec<(Seq, Result<Event, Definition>)>,
}

impl Program {
    fn of(seed: u64, events: u64) -> Self {
        Self::with(seed, events, false)
    }

    fn with(seed: u64, events: u64, code: bool) -> Self {
        let mut program = Self {
            code,
            random: seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1,
            live: Vec::new(),
            freed: Vec::new(),
            seq: 0,
            stacks: 0,
            records: Vec::new(),
        };
        for _ in 0..events {
            program.step();
        }
        program
    }

    fn below(&mut self, limit: u64) -> u64 {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        self.random % limit
    }

    fn define(&mut self, definition: Definition) {
        self.records.push((Seq(self.seq), Err(definition)));
        self.seq += 2;
    }

    fn emit(&mut self, event: Event) -> Seq {
        let seq = Seq(self.seq);
        self.records.push((seq, Ok(event)));
        self.seq += 1;
        seq
    }

    /// A stack, usually one used before.
    fn stack(&mut self) -> StackId {
        if self.stacks == 0 || self.below(4) == 0 {
            self.stacks += 1;
            let id = self.stacks;
            self.define(Definition::Code {
                id: CodeId(id),
                first_line: id,
                file: format!("/home/me/file_{id}.py"),
                name: "f".into(),
                line_table: vec![id as u8; 30],
            });
            self.define(Definition::PyStack {
                id: StackId(id),
                truncated: false,
                modules: Vec::new(),
                frames: vec![PyFrame {
                    code: CodeId(id),
                    offset: 2,
                    entered_from_c: true,
                }],
            });
        }
        let back = self.below(u64::from(self.stacks.min(12)));
        StackId(self.stacks - back as u32)
    }

    fn step(&mut self) {
        let stack = self.stack();
        let time = Nanos(self.seq * 100);
        let device = DeviceOrdinal(self.below(2) as u8);
        let level = gpumem_capture::Level(self.below(4) as u8);
        let (thread, api) = (
            ThreadId(1 + self.below(3) as u32),
            ApiId(self.below(5) as u16),
        );
        let of = |kind, ptr, bytes, aux| Event {
            time,
            ptr,
            bytes,
            aux,
            thread,
            kind,
            level,
            device,
            api,
            py_stack: stack,
            ..Event::default()
        };
        let handle = 1 + self.below(6);
        let bytes = 1 + self.below(5000);
        let wave = (self.seq / 700).is_multiple_of(2);
        match self.below(40) {
            0 => drop(self.emit(of(EventKind::STEP, 0, 0, 0))),
            1 => drop(self.emit(of(EventKind::PHASE_BEGIN, 0, 0, 1 + self.seq % 3))),
            2 => drop(self.emit(of(EventKind::PHASE_END, 0, 0, 1 + self.seq % 3))),
            3 => drop(self.emit(of(EventKind::RANGE_BEGIN, handle % 2, 0, handle))),
            4 => drop(self.emit(of(EventKind::RANGE_END, handle % 2, 0, 0))),
            5 => drop(self.emit(of(EventKind::MAP, handle << 21, bytes, handle))),
            6 => drop(self.emit(of(EventKind::UNMAP, handle << 21, bytes, 0))),
            7 => drop(self.emit(of(EventKind::CONTEXT, handle, bytes, 0))),
            8 => drop(self.emit(of(EventKind::MODULE_LOAD, handle, 0, 0))),
            9 => drop(self.emit(of(EventKind::SAMPLE, bytes, bytes * 3, u64::MAX))),
            10 => drop(self.emit(of(EventKind::CARD, 1 << 34, bytes * 9, 7))),
            11 => drop(self.emit(of(EventKind::OUT_OF_MEMORY, 0, bytes, 2))),
            12 => drop(self.emit(of(EventKind::ALIAS, handle, bytes, 0))),
            13 | 14 => {
                let flags = match self.code {
                    true => [
                        EventFlags::CONTEXT,
                        EventFlags::MODULE,
                        EventFlags::CONTEXT.with(EventFlags::STREAM_ORDERED),
                    ][self.below(3) as usize],
                    false => EventFlags::STREAM_ORDERED,
                };
                let level = gpumem_capture::Level::PHYSICAL;
                let aux = self.below(3000);
                self.emit(Event {
                    flags,
                    level,
                    ..of(EventKind::RESIZE, handle, bytes, aux)
                });
            }
            15 if !self.freed.is_empty() => {
                let at = self.below(self.freed.len() as u64) as usize;
                let (seq, freed) = self.freed.swap_remove(at);
                let taken = self.live.iter().any(|(device, level, ptr, ..)| {
                    (*device, *level, *ptr) == (freed.device, freed.level, freed.ptr)
                });
                if !taken {
                    self.live.push((
                        freed.device,
                        freed.level,
                        freed.ptr,
                        freed.bytes,
                        freed.flags,
                    ));
                    self.emit(Event {
                        kind: EventKind::CANCEL,
                        aux: seq.0,
                        time,
                        ..freed
                    });
                }
            }
            n if self.live.is_empty() || (n < 30) == wave => {
                let ptr = (1 + self.below(200)) << 12;
                let flags = [
                    EventFlags::NONE,
                    EventFlags::MANAGED,
                    EventFlags::VMM_HANDLE,
                ][self.below(3) as usize];
                self.live.push((device, level, ptr, bytes, flags));
                self.emit(Event {
                    flags,
                    ..of(EventKind::ALLOC, ptr, bytes, bytes)
                });
            }
            _ => {
                let at = self.below(self.live.len() as u64) as usize;
                let (device, level, ptr, bytes, flags) = self.live.swap_remove(at);
                let event = Event {
                    device,
                    level,
                    flags,
                    ..of(EventKind::FREE, ptr, bytes, 0)
                };
                let seq = self.emit(event);
                if level != gpumem_capture::Level::TENSOR {
                    self.freed.push((seq, event));
                    self.freed.truncate(20);
                }
            }
        }
    }

    fn feed(&self, replay: &mut Replay, from: Seq, until: Seq) {
        let within = |seq: Seq| from <= seq && seq < until;
        for (seq, record) in self.records.iter().filter(|(seq, _)| within(*seq)) {
            replay.feed(match record {
                Ok(event) => Record::Event(*seq, event),
                Err(definition) => Record::Definition(*seq, definition),
            });
        }
    }

    fn end(&self) -> Seq {
        Seq(self.seq)
    }
}

fn bytes_of(of: &impl Serialize) -> Vec<u8> {
    let mut bytes = Vec::new();
    of.put(&mut bytes);
    bytes
}

fn whole(program: &Program, query: impl Into<Query>) -> Replay {
    let mut replay = Replay::new(query);
    program.feed(&mut replay, Seq(0), program.end());
    replay
}

/// The state at the program's end, restored from a state of at most `limit` bytes at `at`.
fn by_state(program: &Program, at: Seq, limit: usize, query: impl Into<Query>) -> Replay {
    let mut kept = BoundedReplay::default();
    program.feed(&mut kept.replay, Seq(0), at);
    let mut state = Vec::new();
    kept.state(limit, &mut state);
    assert!(state.len() <= limit, "{} of {limit}", state.len());
    let mut replay = Replay::new(query);
    replay.feed(Record::State(at, &state));
    assert!(replay.restored.is_some_and(|restored| restored.is_readable));
    program.feed(&mut replay, at, program.end());
    replay
}

fn figures(replay: &Replay, moment: At) -> Vec<(String, Vec<(StackKey, Figure)>)> {
    let levels = replay.levels.keys();
    levels
        .map(|(device, level)| {
            let mut all = replay.figures(*device, *level, moment);
            all.sort_unstable_by_key(|(key, _)| *key);
            (format!("{device:?} {level}"), all)
        })
        .collect()
}

#[test]
fn a_state_and_what_follows_are_the_whole() {
    for seed in 1..40 {
        let program = Program::of(seed, 3000);
        let mut kept = BoundedReplay::default();
        program.feed(&mut kept.replay, Seq(0), program.end());
        for part in [0, 1, 3, 7, 10] {
            let at = Seq(program.end().0 * part / 10);
            let replay = by_state(&program, at, usize::MAX, At::Peak);
            assert!(
                bytes_of(&replay) == bytes_of(&kept.replay),
                "seed {seed}, state at {at:?}"
            );
            let full = whole(&program, At::Peak);
            for moment in [At::Peak, At::End] {
                assert_eq!(
                    figures(&replay, moment),
                    figures(&full, moment),
                    "seed {seed}"
                );
            }
        }
    }
}

#[test]
fn the_peak_is_as_if_its_records_had_been_read_up_to_it() {
    let (mut told, mut in_the_log, mut grown) = (0, 0, 0);
    for seed in 1..60 {
        let program = Program::with(seed, 3000, seed % 2 == 0);
        let at = Seq(program.end().0 * (1 + seed % 9) / 9);
        let replays = [
            by_state(&program, at, usize::MAX, At::Peak),
            whole(&program, Query::keeping_peaks()),
        ];
        let devices = |replay: &Replay| replay.devices.keys().copied().collect::<Vec<_>>();
        let all = replays.iter().flat_map(|replay| {
            let devices = devices(replay).into_iter();
            devices.map(move |device| (replay, device))
        });
        for (replay, device) in all {
            let device = &device;
            let Some((seq, _)) = replay.devices[device].moment else {
                continue;
            };
            let (kept, after) = replay.at_peak_of(*device).expect("a peak that was kept");
            let growth = growth_of(replay, *device, after.get(63));
            in_the_log += u32::from(replay.restored.is_some() && seq >= at);
            let mut then = Replay::new(At::Peak);
            program.feed(&mut then, Seq(0), Seq(seq.0 + 1));
            told += 1;
            for level in (0..4).map(gpumem_capture::Level) {
                let of = |replay: &Replay, named: &Replay| {
                    let state = replay.levels.get(&(*device, level))?;
                    let mut blocks: Vec<_> = state
                        .live_blocks()
                        .map(|(ptr, block)| {
                            // The category may be known only later.
                            let stacks = named.stacks(block.key).without_category();
                            (ptr, block.seq, block.bytes, stacks)
                        })
                        .collect();
                    blocks.sort_unstable();
                    let parts = |reservation: &crate::Reservation| -> Vec<(StackKey, u64)> {
                        let parts = reservation.parts().iter();
                        parts
                            .map(|(key, bytes)| (named.stacks(*key), *bytes))
                            .collect()
                    };
                    let reservations: Vec<_> = state
                        .reservations()
                        .into_iter()
                        .map(|(kind, ptr, reservation)| (kind, ptr, parts(reservation)))
                        .collect();
                    Some((blocks, reservations, state.counters.live))
                };
                let (a, b) = (of(&then, &then), of(&kept, replay));
                let nothing = || Some((Vec::new(), Vec::new(), 0));
                assert_eq!(
                    a.or_else(nothing),
                    b.or_else(nothing),
                    "seed {seed} {level}"
                );
            }
            let objects = |replay: &Replay, named: &Replay| {
                let objects = &replay.objects;
                let aliases = bytes_of(&objects.aliases);
                let contexts = objects.contexts.iter();
                let contexts: Vec<_> = contexts
                    .map(|(id, (key, bytes))| (*id, named.stacks(*key), *bytes))
                    .collect();
                (
                    objects.mappings.clone(),
                    aliases,
                    contexts,
                    objects.loads.len(),
                )
            };
            assert_eq!(objects(&then, &then), objects(&kept, replay), "seed {seed}");
            assert_eq!(then.span_context(), kept.span_context(), "seed {seed}");
            let best = |replay: &Replay| replay.devices[device].readings.best();
            assert_eq!(best(&then), best(&kept), "seed {seed}");
            assert_eq!((kept.last_seq, kept.last), (then.last_seq, then.last));
            assert_eq!(then.newest_begun, kept.newest_begun, "seed {seed}");
            let mut later = LaterGrowth::default();
            let until = after
                .get(63)
                .map_or(program.end(), |(reading, _)| reading.seq);
            for (seq, record) in &program.records {
                let Ok(event) = record else { continue };
                if *seq > kept.last_seq && *seq < until {
                    then.feed(Record::Event(*seq, event));
                    let mine = event.device == *device || event.kind != EventKind::RESIZE;
                    if mine {
                        then.follow_growth(&mut later, *seq, event);
                    }
                }
            }
            let followed: Vec<_> = later
                .all()
                .iter()
                .map(|growth| named(growth, &then))
                .collect();
            assert_eq!(growth, followed, "seed {seed}");
            grown += growth.len();
        }
    }
    assert!(
        told > 30 && in_the_log > 3 && grown > 100,
        "{told} {in_the_log} {grown}"
    );
}

#[test]
fn a_state_fits_and_evicts_what_holds_nothing_first() {
    let program = Program::of(5, 60_000);
    let at = Seq(program.end().0 - 100);
    let mut all = BoundedReplay::default();
    program.feed(&mut all.replay, Seq(0), at);
    let size = bytes_of(&all.replay).len();
    let full = whole(&program, At::Peak);
    // Definitions of the newest 4,096 stacks stay, whatever the limit.
    let limit = size * 2 / 3;
    let less = by_state(&program, at, limit, At::Peak);
    assert!(less.evicted.stacks > 1000, "{:?}", less.evicted);
    assert_eq!((less.evicted.blocks, less.evicted.peak_blocks), (0, 0));
    for moment in [At::Peak, At::End] {
        let live = |replay: &Replay| -> Vec<_> {
            let figures = figures(replay, moment)
                .into_iter()
                .map(|(_, figures)| figures);
            figures.collect()
        };
        assert_eq!(live(&less), live(&full));
    }
    for (place, state) in &full.levels {
        let sum = |state: &crate::LevelState| {
            state
                .totals()
                .fold(crate::Total::default(), |mut sum, (_, total)| {
                    sum += total;
                    sum
                })
        };
        assert_eq!(sum(state), sum(&less.levels[place]), "{place:?}");
        assert_eq!(state.counters, less.levels[place].counters);
        assert_eq!(state.anomalies, less.levels[place].anomalies);
    }
}

#[test]
fn if_the_live_blocks_do_not_fit_sums_still_hold() {
    let mut kept = BoundedReplay::default();
    let alloc = |n: u64| Event {
        kind: EventKind::ALLOC,
        ptr: n << 12,
        bytes: n % 1000 + 1,
        py_stack: StackId(1 + n as u32 % 7),
        ..Event::default()
    };
    for n in 0..50_000 {
        kept.take(Record::Event(Seq(n), &alloc(n)));
    }
    let before = figures(&kept.replay, At::Peak);
    let live = kept
        .replay
        .counters(DeviceOrdinal(0), gpumem_capture::Level::TENSOR)
        .live;
    let mut state = Vec::new();
    kept.state(200_000, &mut state);
    assert!(state.len() <= 200_000);
    let evicted = kept.replay.evicted;
    assert!(evicted.blocks > 20_000, "{evicted:?}");
    assert_eq!(
        figures(&kept.replay, At::Peak),
        before,
        "the peak was before"
    );
    let sum = |replay: &Replay| -> u64 {
        let figures = figures(replay, At::End).remove(0).1;
        figures.iter().map(|(_, figure)| figure.bytes).sum()
    };
    assert_eq!(sum(&kept.replay), live);
    // Frees of blocks that are no longer kept individually.
    for n in 0..50_000 {
        let event = Event {
            kind: EventKind::FREE,
            ..alloc(n)
        };
        kept.take(Record::Event(Seq(100_000 + n), &event));
    }
    assert_eq!(sum(&kept.replay), 0);
    let state = kept.replay.levels.values().next().unwrap();
    assert_eq!(state.anomalies, crate::Anomalies::default());
}

#[test]
fn a_step_query_can_be_answered_if_the_step_began_after_the_state() {
    let program = Program::of(11, 3000);
    let at = Seq(program.end().0 / 3);
    let steps = by_state(&program, at, usize::MAX, At::Peak)
        .restored
        .unwrap()
        .steps;
    for step in [1, steps + 1, steps + 2, steps + 5] {
        let query = Query {
            step: Some(step),
            ..Query::default()
        };
        let replay = by_state(&program, at, usize::MAX, query);
        assert_eq!(replay.can_answer(query), step > steps + 1);
        if step > steps + 1 {
            let full = whole(&program, query);
            for moment in [At::Peak, At::End] {
                assert_eq!(
                    figures(&replay, moment),
                    figures(&full, moment),
                    "step {step}"
                );
            }
        }
    }
    let before = Query::from(At::Event(Seq(at.0 - 2)));
    assert!(!by_state(&program, at, usize::MAX, before).can_answer(before));
}

#[test]
fn moments_after_the_state_can_be_answered() {
    let program = Program::of(11, 3000);
    let at = Seq(program.end().0 / 3);
    let restored = by_state(&program, at, usize::MAX, At::End)
        .restored
        .unwrap();
    let (steps, last) = (restored.steps, restored.last.0);
    assert!(steps > 3 && last > 0, "the state has some");
    let before = [At::Time(Nanos(last - 1)), At::Step(steps)];
    let after = [
        At::Time(Nanos(last)),
        At::Time(Nanos(last + 50_000)),
        At::Step(steps + 1),
        At::Step(steps + 3),
    ];
    for moment in before {
        let replay = by_state(&program, at, usize::MAX, moment);
        assert!(!replay.can_answer(moment.into()), "{moment:?}");
    }
    for moment in after {
        let replay = by_state(&program, at, usize::MAX, moment);
        assert!(replay.can_answer(moment.into()), "{moment:?}");
        let full = whole(&program, moment);
        assert_eq!(replay.until(), full.until(), "{moment:?}");
        assert_eq!(
            figures(&replay, moment),
            figures(&full, moment),
            "{moment:?}"
        );
    }
}

#[test]
fn sizes_can_be_answered_except_at_peaks_before_the_state() {
    let program = Program::of(12, 3000);
    let at = Seq(program.end().0 / 3);
    let sizes = crate::Sizes {
        least: 1000,
        most: 3000,
    };
    for (moment, told) in [(At::End, true), (At::Peak, false)] {
        let query = Query {
            moment,
            sizes,
            ..Query::default()
        };
        let replay = by_state(&program, at, usize::MAX, query);
        assert_eq!(replay.can_answer(query), told, "{moment:?}");
        if told {
            let full = whole(&program, query);
            assert_eq!(figures(&replay, moment), figures(&full, moment));
            let all = whole(&program, moment);
            assert_ne!(figures(&full, moment), figures(&all, moment));
        }
    }
}

#[test]
fn damaged_states_end_in_an_answer_or_none() {
    let program = Program::of(3, 400);
    let mut kept = BoundedReplay::default();
    program.feed(&mut kept.replay, Seq(0), program.end());
    let good = bytes_of(&kept.replay);
    let mut program = Program::of(4, 0);
    for _ in 0..3000 {
        let mut bad = good.clone();
        for _ in 0..3 {
            let at = program.below(bad.len() as u64) as usize;
            bad[at] = program.below(256) as u8;
        }
        let mut replay = Replay::new(At::Peak);
        replay.feed(Record::State(program.end(), &bad));
        let event = Event {
            kind: EventKind::ALLOC,
            aux: 5,
            bytes: 1,
            ..Event::default()
        };
        replay.feed(Record::Event(Seq(1 << 40), &event));
        figures(&replay, At::Peak);
        replay.at_peak_of(DeviceOrdinal(0));
    }
    for length in 0..good.len() {
        let mut replay = Replay::new(At::Peak);
        replay.feed(Record::State(Seq(1), &good[..length]));
        assert!(!replay.restored.unwrap().is_readable);
    }
}
