use std::collections::HashMap;

use gpumem_capture::{CodeId, Definition, DeviceOrdinal, StackId};
use gpumem_replay::{At, Figure};

use super::*;
use crate::growth::Growth;

/// Stacks by number: the frames of functions 0 to 3, the oldest first, with their offsets.
const STACKS: [&[(u32, i32)]; 8] = [
    &[(0, 10)],
    &[(0, 20)],
    &[(0, 20), (1, 5)],
    &[(0, 20), (1, 9)],
    &[(0, 30)],
    &[(0, 2), (2, 3)],
    &[(0, 2), (2, 6)],
    &[(0, 40), (3, 7)],
];

/// What a program does.
#[derive(Clone, Copy, Debug)]
enum Does {
    /// Allocates bytes under a name, with a stack.
    Allocate(u32, u64, u64),
    Free(u64),
    Step,
}
use Does::{Allocate, Free, Step};

struct Ran {
    clock: RoundClock,
    replay: Replay,
    /// Live memory at the ends of rounds.
    ends: HashMap<RoundOf, Vec<(u64, Figure)>>,
}

impl Ran {
    fn of(program: &[Does]) -> Self {
        let mut replay = Replay::new(At::End);
        let mut define = |definition: Definition| {
            replay.feed(Record::Definition(Seq(0), &definition));
        };
        for code in 0..4 {
            define(Definition::Code {
                id: CodeId(code),
                first_line: code + 1,
                file: "/srv/serve.py".into(),
                name: "f".into(),
                line_table: Vec::new(),
            });
        }
        for (id, frames) in (1..).zip(STACKS) {
            let frame = |(code, offset): &(u32, i32)| gpumem_capture::PyFrame {
                code: CodeId(*code),
                offset: *offset,
                entered_from_c: false,
            };
            define(Definition::PyStack {
                id: StackId(id),
                truncated: false,
                frames: frames.iter().rev().map(frame).collect(),
                modules: Vec::new(),
            });
        }
        let (mut clock, mut ends) = (RoundClock::default(), HashMap::new());
        let (mut live, mut sizes) = (Figure::default(), HashMap::new());
        for (seq, does) in (1..).map(Seq).zip(program) {
            let mut event = Event {
                level: Level::TENSOR,
                device: DeviceOrdinal(0),
                ..Event::default()
            };
            let mut after = live;
            match *does {
                Allocate(stack, name, bytes) => {
                    event.kind = EventKind::ALLOC;
                    (event.ptr, event.bytes) = (name, bytes);
                    event.py_stack = StackId(stack + 1);
                    sizes.insert(name, bytes);
                    after += Figure::block(bytes);
                }
                Free(name) => {
                    event.kind = EventKind::FREE;
                    (event.ptr, event.bytes) = (name, sizes[&name]);
                    after -= Figure::block(event.bytes);
                }
                Step => event.kind = EventKind::STEP,
            }
            replay.feed(Record::Event(seq, &event));
            if let Some((of, round)) = clock.observe(&replay, Record::Event(seq, &event)) {
                let series: &mut Vec<_> = ends.entry(of).or_default();
                series.push((round, live));
            }
            live = after;
        }
        Self {
            clock,
            replay,
            ends,
        }
    }

    /// The first offset of the loop that was chosen, its rounds that ended, and the growth.
    fn chosen(&self) -> Option<(i32, u64, Growth)> {
        let of = self.clock.choose()?;
        let series = &self.ends[&of];
        let first = match of {
            RoundOf::Step => -1,
            RoundOf::Loop(number) => self.clock.rounds.loops()[number - self.clock.base].first,
        };
        Some((first, series.last()?.0, Growth::of(series)))
    }
}

/// A server: a request, a temporary and a response that is kept.
fn serve(requests: u64) -> Vec<Does> {
    let request = |n| {
        let at = 10 * n;
        [
            Allocate(0, at, 100),
            Allocate(2, at + 1, 50),
            Allocate(3, at + 2, 7),
            Free(at + 1),
            Free(at),
        ]
    };
    (1..=requests).flat_map(request).collect()
}

#[test]
fn a_server_that_keeps_responses_grows_by_them() {
    for requests in [2, 3, 5, 20, 200] {
        let ran = Ran::of(&serve(requests));
        let (first, ended, growth) = ran.chosen().expect("a loop");
        assert_eq!((first, ended), (10, requests - 1));
        assert_eq!(growth.is_growth, requests >= 5, "{requests}");
        assert_eq!(
            (growth.per_round, growth.range),
            match requests {
                2 => (0, (0, 0)),
                _ => (7, (7, 7)),
            }
        );
        let rounds = ran.clock.rounds(&ran.replay.names).expect("rounds");
        let last = rounds.last().expect("a round has ended");
        assert_eq!(last, Seq(5 * (requests - 1)));
        assert_eq!(rounds.ended_before(last), requests - 2);
        assert_eq!(rounds.ended_before(Seq(last.0 + 1)), requests - 1);
    }
    assert!(Ran::of(&serve(1)).chosen().is_none());
}

#[test]
fn marked_steps_come_before_loops() {
    let step = || [serve(9), vec![Step]].concat();
    let ran = Ran::of(&[step(), step(), step(), serve(9)].concat());
    let (first, ended, _) = ran.chosen().expect("steps");
    assert_eq!((first, ended), (-1, 3));
    assert!(!(0..9).any(|at| ran.clock.follows(RoundOf::Loop(at))));
}

/// More follows the last step than belongs to one.
#[test]
fn after_the_last_step_a_loop_counts_that_keeps_much() {
    let step = || [serve(3), vec![Step]].concat();
    let outcome = |evaluation: Vec<Does>, weights: u64| {
        let weights = vec![Allocate(5, 1 << 40, weights)];
        Ran::of(&[weights, step(), step(), evaluation].concat()).chosen()
    };
    let (first, ended, growth) = outcome(serve(24), 100).expect("a loop");
    assert_eq!((first, growth.is_growth, growth.per_round), (10, true, 7));
    assert_eq!(ended, 24 - 3 - 1, "from the end of what may be a step");
    let (first, ended, _) = outcome(serve(24), 10_000).expect("steps");
    assert_eq!((first, ended), (-1, 2), "little is kept");
    let keeps_nothing = rounds(24, |_| vec![]);
    assert_eq!(outcome(keeps_nothing, 100).expect("steps").0, -1);
    let (first, ended, _) = outcome([serve(24), step()].concat(), 100).expect("steps");
    assert_eq!((first, ended), (-1, 3), "another step");
}

/// A loop that keeps large blocks, such as layers.
fn large(rounds: u64) -> Vec<Does> {
    let layer = |n: u64| [Allocate(5, 1000 + n, 500), Allocate(6, 2000 + n, 500)];
    (0..rounds).flat_map(layer).collect()
}

#[test]
fn the_loop_that_runs_through_most_of_the_capture_counts() {
    let expected = |requests: u64| Some((10, requests - 1, 7));
    let outcome = |parts: &[Vec<Does>]| {
        let (first, ended, growth) = Ran::of(&parts.concat()).chosen()?;
        Some((first, ended, growth.per_round))
    };
    assert_eq!(outcome(&[large(40), serve(24)]), expected(24), "a set-up");
    assert_eq!(outcome(&[serve(16), large(12)]), expected(16), "at the end");
}

#[test]
fn the_outermost_loop_that_keeps_memory_counts() {
    // Each request takes eight tokens, whose results are kept, or dropped with the request.
    let served = |is_kept: bool| {
        let mut program = Vec::new();
        for n in 1..=10 {
            let at = 100 * n;
            program.push(Allocate(0, at, 1));
            let token = |token| {
                [
                    Allocate(2, at + token, 20),
                    Allocate(3, at + 20 + token, 40),
                ]
            };
            program.extend((1..=8).flat_map(token));
            program.extend((1..=8).map(|token| Free(at + token)));
            if !is_kept {
                program.extend((1..=8).map(|token| Free(at + 20 + token)));
            }
        }
        Ran::of(&program).chosen().expect("a loop")
    };
    let (first, ended, growth) = served(true);
    assert_eq!((first, ended, growth.per_round), (10, 9, 8 * 40 + 1));
    assert!(growth.is_growth);
    let (first, _, growth) = served(false);
    assert_eq!((first, growth.is_growth), (5, false));
}

#[test]
fn a_few_blocks_of_a_line_are_no_rounds() {
    let list = |blocks| Ran::of(&(1..=blocks).map(|n| Allocate(0, n, 7)).collect::<Vec<_>>());
    assert_eq!(list(5).chosen(), None);
    let (first, ended, growth) = list(6).chosen().expect("a loop");
    assert_eq!((first, ended, growth.per_round), (10, 5, 7));
}

#[test]
fn a_loop_that_keeps_nothing_is_not_chosen() {
    assert_eq!(Ran::of(&rounds(20, |_| Vec::new())).chosen(), None);
}

/// A program that allocates in each round what `allocates` returns: name, bytes; and frees what it returned for
/// the round before, except for what it returns again.
fn rounds(rounds: u64, allocates: impl Fn(u64) -> Vec<(u64, u64)>) -> Vec<Does> {
    let mut program = Vec::new();
    let mut live: Vec<(u64, u64)> = Vec::new();
    for n in 1..=rounds {
        let next = allocates(n);
        program.push(Allocate(0, 1_000_000 + n, 64));
        program.push(Free(1_000_000 + n));
        let gone = live.iter().filter(|of| !next.contains(of));
        program.extend(gone.map(|(name, _)| Free(*name)));
        let new = next.iter().filter(|of| !live.contains(of));
        program.extend(new.map(|(name, bytes)| Allocate(2, *name, *bytes)));
        live = next;
    }
    program
}

#[test]
fn caches_warm_ups_and_evaluations_do_not_grow() {
    let grows = |program: Vec<Does>| Ran::of(&program).chosen().expect("a loop").2.is_growth;
    let list = |names: std::ops::RangeInclusive<u64>| names.map(|name| (name, 9)).collect();
    assert!(grows(rounds(20, |n| list(1..=n))), "a list");
    assert!(!grows(rounds(20, |n| list(1..=n.min(8)))), "a cache");
    assert!(!grows(rounds(20, |_| list(1..=4))), "a warm-up");
    assert!(!grows(rounds(20, |n| list(1..=n.min(2)))), "a longer one");
    assert!(!grows(rounds(40, |n| list(1..=n % 10))), "an evaluation");
    assert!(!grows(rounds(20, |n| list(n.max(5) - 4..=n))), "a ring");
}

#[test]
fn a_constant_and_the_order_of_frees_change_nothing() {
    for seed in 1..200_u64 {
        let mut state = seed;
        let mut random = |below: u64| {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            (state >> 33) % below
        };
        let (mut program, mut reversed) = (Vec::new(), Vec::new());
        let (mut live, mut name): (Vec<u64>, u64) = (Vec::new(), 0);
        for _ in 0..5 + random(30) {
            let mut allocate = |stack, bytes| {
                name += 1;
                live.push(name);
                Allocate(stack, name, bytes)
            };
            let allocated = [
                allocate(0, 1 + random(100)),
                allocate(2, 1 + random(9)),
                allocate(3, 1 + random(9)),
            ];
            let keeps = random(4) as usize;
            let gone: Vec<Does> = (keeps..live.len().min(keeps + 3))
                .map(|_| Free(live.remove(random(live.len() as u64) as usize)))
                .collect();
            program.extend(allocated.iter().chain(&gone));
            reversed.extend(allocated.iter().chain(gone.iter().rev()));
        }
        let constant = [vec![Allocate(5, 1 << 40, 12_345)], program.clone()].concat();
        let outcome = |program: &[Does]| Ran::of(program).chosen();
        let expected = outcome(&program);
        assert!(expected.is_some());
        assert_eq!(outcome(&reversed), expected, "{seed}");
        assert_eq!(
            outcome(&constant).map(|of| of.2),
            expected.map(|of| of.2),
            "{seed}"
        );
    }
}
