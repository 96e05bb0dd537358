use gpumem_capture::{Definition, PyFrame};

use super::*;

/// Functions by number; those from 100 on are modules' calls.
fn names(stacks: &[(u32, &[(u32, i32)])]) -> Names {
    let mut names = Names::default();
    for code in 0..110 {
        let (file, name) = match code {
            100.. => ("/env/torch/nn/modules/module.py", "_call_impl"),
            _ => ("/srv/train.py", "f"),
        };
        names.define(&Definition::Code {
            id: CodeId(code),
            first_line: 1,
            file: file.into(),
            name: name.into(),
            line_table: Vec::new(),
        });
    }
    for (id, steps) in stacks {
        let frames = steps.iter().rev().map(|(code, offset)| PyFrame {
            code: CodeId(*code),
            offset: *offset,
            entered_from_c: false,
        });
        names.define(&Definition::PyStack {
            id: StackId(*id),
            truncated: false,
            frames: frames.collect(),
            modules: Vec::new(),
        });
    }
    names
}

/// The rounds of all loops after allocations of these stacks by one thread: depth, first offset, rounds.
fn loops(names: &Names, stacks: &[u32]) -> Vec<(usize, i32, u64)> {
    let on_one = stacks.iter().map(|stack| (1, *stack));
    loops_of(names, &on_one.collect::<Vec<_>>())
}

fn loops_of(names: &Names, stacks: &[(u32, u32)]) -> Vec<(usize, i32, u64)> {
    let mut rounds = Rounds::default();
    for (seq, (thread, stack)) in (0..).zip(stacks) {
        rounds.reach(names, (ThreadId(*thread), StackId(*stack)), (Seq(seq), 0));
    }
    let mut all: Vec<_> = rounds
        .loops()
        .iter()
        .map(|of| (of.depth, of.first, of.round()))
        .collect();
    all.sort_unstable();
    all
}

#[test]
fn an_earlier_place_with_the_same_callers_is_a_round() {
    let names = names(&[(1, &[(0, 10)]), (2, &[(0, 20)]), (3, &[(0, 30), (1, 5)])]);
    assert_eq!(loops(&names, &[1, 2, 3]), [], "a straight line");
    assert_eq!(loops(&names, &[1, 2, 3, 1, 2, 3, 1]), [(0, 10, 3)]);
    assert_eq!(loops(&names, &[1, 2, 3, 2, 3, 2]), [(0, 20, 3)]);
}

#[test]
fn loops_nest() {
    let names = names(&[(1, &[(0, 10)]), (2, &[(0, 20)]), (3, &[(0, 30)])]);
    // An epoch, and three steps in each.
    let epoch = [1, 2, 3, 2, 3, 2, 3];
    assert_eq!(
        loops(&names, &epoch.repeat(2)),
        [(0, 10, 2), (0, 20, 1 + 2 + 2)]
    );
}

#[test]
fn layers_of_a_forward_are_no_rounds() {
    let names = names(&[
        (1, &[(0, 10)]),
        (2, &[(0, 20), (100, 1), (2, 5), (101, 1), (3, 7)]),
        (3, &[(0, 20), (100, 1), (2, 5), (101, 1), (3, 9)]),
    ]);
    assert_eq!(loops(&names, &[1, 2, 3, 2, 3, 2, 3]), []);
    assert_eq!(loops(&names, &[1, 2, 3, 1, 2, 3]), [(0, 10, 2)]);
}

#[test]
fn a_forward_that_is_called_again_begins_with_its_first_stack() {
    let names = names(&[
        (2, &[(0, 20), (100, 1), (2, 5)]),
        (3, &[(0, 20), (100, 1), (2, 9)]),
    ]);
    assert_eq!(loops(&names, &[2, 2, 3, 3, 2, 3, 2, 3]), [(0, 20, 3)]);
}

#[test]
fn steps_in_time_are_parts_of_the_round_that_a_backward_ends() {
    // A recurrent forward, its loss, what is made before it, and its backward.
    let mut names = names(&[
        (1, &[(0, 15)]),
        (2, &[(0, 20), (100, 1), (2, 5)]),
        (3, &[(0, 20), (100, 1), (2, 9)]),
        (4, &[(0, 30)]),
    ]);
    names.define(&Definition::Backward {
        id: StackId(9),
        lost: false,
        forward: StackId(3),
        own: StackId::NONE,
        newer: 0,
        node: "TanhBackward0".into(),
    });
    let rounds = |chunk: &[u32], has_backward: bool| {
        let (mut rounds, mut seq) = (Rounds::default(), 0);
        for round in 0..4 {
            for stack in chunk {
                seq += 1;
                let at = (Seq(seq), u64::from(has_backward) * round);
                rounds.reach(&names, (ThreadId(1), StackId(*stack)), at);
            }
        }
        let of = |of: &Loop| {
            let starts: Vec<u64> = of.starts().iter().map(|start| start.round).collect();
            assert!(starts.iter().copied().eq(2..=of.round()), "{starts:?}");
            (of.first, of.round())
        };
        rounds.loops().iter().map(of).collect::<Vec<_>>()
    };
    // Three steps in time.
    let forward = [2, 3, 2, 3, 2, 3];
    let with = |before: &[u32], after: &[u32]| [before, &forward, after].concat();
    assert_eq!(rounds(&with(&[], &[4, 9]), true), [(20, 4)]);
    assert_eq!(rounds(&with(&[1], &[4, 9]), true), [(20, 4), (15, 4)]);
    assert_eq!(rounds(&with(&[], &[9]), true), [(20, 4)]);
    // Without a backward, or one through another forward, each call may be a round.
    assert_eq!(rounds(&with(&[], &[4]), true), [(20, 12)]);
    assert_eq!(rounds(&with(&[], &[]), false), [(20, 12)]);
}

#[test]
fn a_function_that_is_called_again_is_a_round() {
    let names = names(&[(1, &[(0, 10), (1, 4)]), (2, &[(0, 10), (1, 8)])]);
    assert_eq!(loops(&names, &[1, 2, 1, 2]), [(1, 4, 2)]);
}

#[test]
fn a_line_that_allocates_again_and_again_is_a_loop_of_its_allocations() {
    let names = names(&[(1, &[(0, 10)])]);
    let mut rounds = Rounds::default();
    for seq in 0..3 {
        rounds.reach(&names, (ThreadId(1), StackId(1)), (Seq(seq), 0));
    }
    assert!(rounds.loops()[0].is_line && rounds.loops()[0].round() == 3);
}

#[test]
fn threads_that_begin_alike_are_rounds() {
    let names = names(&[(1, &[(0, 10)]), (2, &[(0, 20)]), (3, &[(5, 1)])]);
    let all = [(1, 1), (1, 2), (2, 1), (2, 2), (3, 1), (9, 3)];
    assert_eq!(loops_of(&names, &all), [(0, i32::MIN, 3)]);
}

#[test]
fn an_allocation_belongs_to_the_round_in_which_it_was_made() {
    let names = names(&[(1, &[(0, 10)]), (2, &[(0, 20)]), (3, &[(0, 90)])]);
    let mut rounds = Rounds::default();
    for (seq, stack) in [1, 2, 1, 2, 1, 2].into_iter().enumerate() {
        let at = (Seq(seq as u64), 0);
        rounds.reach(&names, (ThreadId(1), StackId(stack)), at);
    }
    let of = &rounds.loops()[0];
    let at = [0, 1, 2, 3, 4, 5].map(|seq| of.round_at(Seq(seq)));
    assert_eq!(at, [1, 1, 2, 2, 3, 3]);
    let contains = |stack| of.contains(&Path::of(&names, StackId(stack)));
    assert!(contains(1) && contains(2) && !contains(3));
}

#[test]
fn starts_are_bounded_and_keep_the_newest() {
    let names = names(&[(1, &[(0, 10)]), (2, &[(0, 20)])]);
    let mut rounds = Rounds::default();
    let count = 3 * STARTS as u64;
    for seq in 0..2 * count {
        let stack = StackId(1 + (seq % 2) as u32);
        rounds.reach(&names, (ThreadId(1), stack), (Seq(seq), 0));
    }
    let of = &rounds.loops()[0];
    assert!(of.starts().len() <= STARTS && of.round() == count);
    assert_eq!(of.round_at(Seq(2 * count - 1)), count);
    assert_eq!(of.round_at(Seq(2 * count - 4)), count - 1);
}
