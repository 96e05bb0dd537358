use std::collections::BTreeSet;

use gpumem_replay::attribution::{Line, Owner, Split};
use gpumem_replay::names::Names;
use gpumem_replay::{Reading, StackKey, ThreadPhase};

use super::*;
use crate::cache::{Cache, Free};
use crate::facts::{Larger, Most, Part, Request};
use crate::follow::{Card, StepPeaks};
use crate::kept::KeptLine;
use crate::words;

const GIB: u64 = 1 << 30;
const MIB: u64 = 1 << 20;

/// A request of 1 GiB on a card of 16 GiB that this process fills with activations.
fn facts() -> Facts {
    Facts {
        request: Request {
            bytes: GIB,
            seq: gpumem_capture::Seq(100),
            level: Level::TENSOR,
            owner: Owner::Unknown,
            stacks: StackKey::default(),
            refused: Some(GIB),
            was_refused: true,
            has_no_size: false,
            is_workspace: false,
            in_foreach: false,
            in_forward: false,
            in_backward: false,
            is_without_backward: false,
            largest_before: None,
            allocations_before: 0,
            in_copy: false,
            threads: 0,
        },
        card: Card {
            total: Some(16 * GIB),
            is_limit: false,
            mine: 16 * GIB,
            reading: None,
        },
        level: Level::TENSOR,
        live: 14 * GIB,
        tensors: 14 * GIB,
        reserved: 15 * GIB,
        cache: None,
        settings: None,
        parts: vec![Part {
            owner: Owner::Unknown,
            category: Category::Activation,
            figure: figure(14 * GIB, 20),
        }],
        outside: Vec::new(),
        kept: Vec::new(),
        longer: Vec::new(),
        larger: None,
        alike: None,
        new: None,
        copies: Vec::new(),
        most: None,
        foreach: 0,
        shared: 0,
        holders: None,
        replays: None,
        steps: 3,
        peaks: StepPeaks::default(),
        trains: true,
        went_on: false,
        largest: Vec::new(),
    }
}

/// 5 GiB of free memory that a request of 1 GiB cannot use.
fn in_small_blocks() -> Option<Cache> {
    Some(Cache {
        usable: Free {
            bytes: 5 * GIB,
            blocks: 40,
            largest: GIB / 2,
            ..Free::default()
        },
        reserved: 15 * GIB,
        ..Cache::default()
    })
}

fn figure(bytes: u64, blocks: u64) -> Figure {
    Figure { bytes, blocks }
}

fn kept(bytes: u64) -> Kept {
    Kept {
        blocks: Vec::new(),
        begins: None,
        made_at: None,
        rounds: 4,
        of: 3,
        each: Some(1),
        is_line: false,
        is_one_call: false,
        of_models: false,
        categories: BTreeSet::from([Category::Parameter]),
        is_growth: true,
        figure: figure(bytes, 3),
        lines: vec![KeptLine {
            owner: Owner::Unknown,
            figure: figure(bytes, 3),
            rounds: 3,
            in_forward: false,
            is_no_grad: false,
        }],
        with_backward: 3,
        is_graph: false,
        was_consumed: false,
        was_used: false,
        is_of_second_order: false,
        is_no_grad: false,
        is_until_request: false,
        is_reset: false,
        is_window: false,
        last: None,
    }
}

fn kind(facts: &Facts) -> Kind {
    judge(facts).kind
}

#[test]
fn what_is_independent_of_tensors_comes_first() {
    let mut of = facts();
    assert_eq!(kind(&of), Kind::Activations);
    of.kept = vec![kept(8 * GIB)];
    assert_eq!(kind(&of), Kind::KeptTensors);
    of.request.bytes = 17 * GIB;
    assert_eq!(kind(&of), Kind::TooLarge);
    of.request.bytes = GIB;
    of.card.mine = 2 * GIB;
    assert_eq!(kind(&of), Kind::NotMemory, "14 GiB are free");
    of.request.level = Level::HOST;
    assert_eq!(kind(&of), Kind::Host);
}

#[test]
fn other_processes_are_the_cause_if_the_request_fits_without_them() {
    let mut of = facts();
    of.card.mine = 2 * GIB;
    (of.tensors, of.reserved, of.live) = (GIB, GIB, GIB);
    of.card.reading = Some(Reading {
        others: Some(14 * GIB),
        ..reading()
    });
    assert_eq!(kind(&of), Kind::OtherProcesses);
    of.request.bytes = 15 * GIB;
    assert_ne!(
        kind(&of),
        Kind::OtherProcesses,
        "too large with them and without"
    );
}

fn reading() -> Reading {
    Reading {
        seq: gpumem_capture::Seq(1),
        time: gpumem_capture::Nanos(1),
        process: None,
        others: None,
        physical: 0,
        managed: 0,
        estimated: false,
        card: None,
    }
}

#[test]
fn a_small_growth_counts_only_if_the_same_request_succeeded_before() {
    let mut of = facts();
    of.kept = vec![kept(GIB)];
    assert_eq!(kind(&of), Kind::Activations);
    (of.request.largest_before, of.request.allocations_before) = (Some(GIB), 3);
    assert_eq!(kind(&of), Kind::KeptTensors);
    of.kept[0].is_reset = true;
    assert_eq!(
        kind(&of),
        Kind::Activations,
        "the loop leaves nothing at its end"
    );
    of.kept = vec![kept(100 * MIB)];
    assert_eq!(kind(&of), Kind::Activations, "less than is missing");
}

#[test]
fn graphs_and_results_differ_and_so_do_rounds_with_a_backward() {
    let mut of = facts();
    of.kept = vec![kept(8 * GIB)];
    let judged = |of: &Facts| (judge(of).kind, judge(of).certainty);
    assert_eq!(judged(&of), (Kind::KeptTensors, Certainty::Follows));
    of.kept[0].is_graph = true;
    assert_eq!(judged(&of), (Kind::KeptGraphs, Certainty::Likely));
    of.kept[0].with_backward = 0;
    assert_eq!(kind(&of), Kind::NoBackward);
    of.kept[0].was_consumed = true;
    assert_eq!(kind(&of), Kind::Waiting);
    of.kept[0].was_consumed = false;
    of.kept[0].is_of_second_order = true;
    assert_eq!(
        kind(&of),
        Kind::Waiting,
        "a gradient that is to be differentiated"
    );
    of.kept[0].with_backward = 3;
    assert_eq!(kind(&of), Kind::KeptGraphs);
    of.kept[0].with_backward = 0;
    of.kept[0].is_of_second_order = false;
    of.kept[0].is_no_grad = true;
    assert_eq!(kind(&of), Kind::KeptTensors);
    of.kept[0].is_growth = false;
    assert_eq!(kind(&of), Kind::PreviousRound);
}

#[test]
fn the_innermost_loop_that_holds_nearly_as_much_counts() {
    let mut of = facts();
    of.kept = vec![kept(8 * GIB), kept(7 * GIB), kept(2 * GIB)];
    assert_eq!(judge(&of).of_loop, Some(1));
}

#[test]
fn free_memory_counts_by_whether_the_request_can_use_it() {
    let mut of = facts();
    (of.live, of.tensors) = (8 * GIB, 8 * GIB);
    let free = |bytes, largest| Free {
        bytes,
        blocks: 9,
        largest,
        segments: 3,
        whole: 0,
    };
    let none = Free::default();
    let cache = |usable, other_streams, other_pools| {
        Some(Cache {
            usable,
            other_streams,
            streams: 1,
            other_pools,
            reserved: 15 * GIB,
        })
    };
    of.cache = cache(free(7 * GIB, GIB / 2), none, none);
    assert_eq!(kind(&of), Kind::Fragmentation);
    of.cache = cache(free(GIB, GIB / 2), free(6 * GIB, GIB / 2), none);
    assert_eq!(kind(&of), Kind::OtherStreams);
    of.cache = cache(none, none, free(7 * GIB, GIB / 2));
    assert_eq!(kind(&of), Kind::PrivatePools);
    of.cache = cache(free(7 * GIB, 2 * GIB), none, none);
    assert_eq!(
        kind(&of),
        Kind::Activations,
        "a block would do: not about pieces"
    );
}

#[test]
fn a_request_of_an_unusual_size_is_a_cause() {
    let mut of = facts();
    of.request.bytes = 6 * GIB;
    (of.request.largest_before, of.request.allocations_before) = (Some(3 * GIB), 3);
    assert_eq!(kind(&of), Kind::LargeRequest);
    of.request.largest_before = Some(4 * GIB);
    assert_eq!(kind(&of), Kind::Activations);
}

#[test]
fn a_batch_that_is_larger_than_all_before_is_a_cause() {
    let mut of = facts();
    let mut judged = |before, allocations| {
        of.larger = Some(Larger {
            owner: Owner::Unknown,
            bytes: 4 * GIB,
            before,
            allocations,
        });
        kind(&of)
    };
    assert_eq!(judged(GIB, 9), Kind::LargeRequest);
    assert_eq!(judged(3 * GIB, 9), Kind::Activations, "not much larger");
    assert_eq!(
        judged(GIB, 2),
        Kind::Activations,
        "little is known of the line"
    );
}

#[test]
fn without_facts_nothing_is_known() {
    let mut of = facts();
    of.parts.clear();
    assert_eq!(kind(&of), Kind::Unknown);
}

#[test]
fn one_large_free_block_is_no_fragmentation() {
    let mut of = facts();
    (of.live, of.tensors) = (8 * GIB, 8 * GIB);
    let mut judged = |largest| {
        of.cache = Some(Cache {
            usable: Free {
                bytes: 6 * GIB,
                blocks: 9,
                largest,
                segments: 3,
                whole: 0,
            },
            reserved: 15 * GIB,
            ..Cache::default()
        });
        of.request.bytes = 5 * GIB;
        kind(&of)
    };
    assert_eq!(judged(GIB), Kind::Fragmentation);
    assert_eq!(judged(4 * GIB), Kind::Activations);
}

#[test]
fn other_processes_count_although_pieces_would_add_up() {
    let mut of = facts();
    of.card.mine = 2 * GIB;
    (of.tensors, of.reserved, of.live) = (GIB, 2 * GIB, GIB);
    of.card.reading = Some(Reading {
        others: Some(14 * GIB - GIB / 2),
        ..reading()
    });
    let usable = |largest| Free {
        bytes: GIB,
        blocks: 4,
        largest,
        segments: 4,
        whole: 0,
    };
    let cache = |largest| {
        Some(Cache {
            usable: usable(largest),
            reserved: 2 * GIB,
            ..Cache::default()
        })
    };
    of.cache = cache(GIB / 4);
    assert_eq!(kind(&of), Kind::OtherProcesses);
    of.cache = cache(GIB);
    assert_ne!(kind(&of), Kind::OtherProcesses, "a block would do");
}

mod advice;
mod callers;
mod held;
mod keepers;
mod loops;
mod models;
mod needs;
mod parts;
mod requests;
mod walks;

#[test]
fn the_line_with_most_memory_is_named_with_its_largest_caller() {
    let line = |file: &str, line| Line {
        file: file.into(),
        relative: None,
        line,
        function: String::new(),
    };
    let model = Owner::Line(line("gpt.py", 36), None);
    let split = |train, evaluate| Split {
        lines: vec![
            (line("train.py", 12), figure(train, 8)),
            (line("train.py", 20), figure(evaluate, 2)),
        ],
        are_callers: true,
        modules: Vec::new(),
    };
    let said = |train, evaluate| {
        let mut facts = facts();
        facts.parts[0].owner = model.clone();
        facts.most = Some(Most {
            owner: model.clone(),
            figure: figure(14 * GIB, 10),
            split: split(train, evaluate),
        });
        words::what(&Names::default(), &facts, &judge(&facts))
    };
    let text = said(11 * GIB, 3 * GIB);
    assert!(
        text.contains("mostly from gpt.py:36 (of it 11.0 GiB called from train.py:12);"),
        "{text}"
    );
    // Twelve callers with a twelfth each say nothing.
    let text = said(GIB, GIB);
    assert!(text.contains("mostly from gpt.py:36;"), "{text}");
}

#[test]
fn free_memory_in_pieces_comes_before_a_store_that_does_not_grow() {
    let mut of = facts();
    of.reserved = 15 * GIB;
    (of.live, of.tensors) = (8 * GIB, 8 * GIB);
    of.kept = vec![kept(6 * GIB)];
    of.cache = in_small_blocks();
    assert_eq!(kind(&of), Kind::KeptTensors);
    of.kept[0].is_window = true;
    assert_eq!(kind(&of), Kind::Fragmentation);
    of.kept[0].is_window = false;
    of.kept[0].figure.bytes = 4 * GIB;
    assert_eq!(kind(&of), Kind::Fragmentation, "it is more");
}

#[test]
fn a_context_without_room_is_due_to_others() {
    let mut of = facts();
    (of.request.has_no_size, of.request.bytes) = (true, 0);
    of.request.level = Level::PHYSICAL;
    of.card.mine = 0;
    let verdict = judge(&of);
    assert_eq!(
        (verdict.kind, verdict.certainty),
        (Kind::OtherProcesses, Certainty::Likely)
    );
    of.card.mine = 15 * GIB;
    assert_ne!(kind(&of), Kind::OtherProcesses);
}

#[test]
fn one_tensor_of_a_forward_may_not_be_for_a_backward() {
    let mut of = facts();
    of.parts[0].figure.blocks = 1;
    assert_eq!(kind(&of), Kind::Largest);
}

#[test]
fn a_card_may_be_full_of_contexts() {
    let mut of = facts();
    (of.live, of.tensors, of.reserved) = (0, 0, 0);
    of.parts.clear();
    let verdict = judge(&of);
    assert_eq!(verdict.kind, Kind::Unknown);
    let text = words::what(&Names::default(), &of, &verdict);
    assert_eq!(
        text,
        "contexts and kernel code take 16.0 GiB of 16.0 GiB, and no tensor is live"
    );
}
