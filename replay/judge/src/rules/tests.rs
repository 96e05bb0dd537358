use gpumem_replay::attribution::Owner;
use gpumem_replay::{Reading, StackKey};

use super::*;
use crate::cache::{Cache, Free};
use crate::facts::{Part, Request};
use crate::follow::{After, Card};
use crate::holders::{Holder, HolderKind, Holders};
use crate::kept::KeptLine;

const GIB: u64 = 1 << 30;
const MIB: u64 = 1 << 20;

/// A request of 1 GiB on a card of 16 GiB that this process fills with activations.
fn facts() -> Facts {
    Facts {
        request: Request {
            bytes: GIB,
            level: Level::TENSOR,
            owner: Owner::Unknown,
            stacks: StackKey::default(),
            refused: Some(GIB),
            was_refused: true,
            has_no_size: false,
            is_workspace: false,
            in_forward: false,
            in_backward: false,
            largest_before: None,
            allocations_before: 0,
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
        longer: None,
        alike: None,
        new: None,
        copies: Vec::new(),
        most: None,
        shared: 0,
        holders: None,
        steps: 3,
        trains: true,
        after: After::default(),
    }
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
        is_line: false,
        of_models: false,
        is_growth: true,
        figure: figure(bytes, 3),
        per_round: bytes / 3,
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
        is_no_grad: false,
        is_reset: false,
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
    };
    let none = Free::default();
    let cache = |usable, other_streams, other_pools| {
        Some(Cache {
            usable,
            other_streams,
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
fn without_facts_nothing_is_known() {
    let mut of = facts();
    of.parts.clear();
    assert_eq!(kind(&of), Kind::Unknown);
}

/// A holder of these bytes.
fn holder(kind: HolderKind, text: &str, place: &str, bytes: u64) -> Holder {
    Holder {
        kind,
        is_own: !place.contains("packages"),
        text: text.into(),
        place: place.into(),
        bytes,
        blocks: 3,
        frees: None,
    }
}

/// The facts, with what a walk found. The first holder has the blocks of [`kept`].
fn with(all: Vec<Holder>, kept: Vec<Kept>) -> Facts {
    let mut of = facts();
    of.kept = kept;
    let each = of.kept.first().map_or(0, |kept| kept.figure.bytes / 3);
    for kept in &mut of.kept {
        kept.blocks = vec![(1, each), (2, each), (3, each)];
    }
    of.holders = Some(Holders {
        live: of.live,
        all,
        blocks: [(1, 0), (2, 0), (3, 0)].into_iter().collect(),
        ..Holders::default()
    });
    of
}

fn judged(of: &Facts) -> (Kind, Certainty, Option<usize>) {
    let verdict = judge(of);
    let holder = verdict.holders.first().copied();
    (verdict.kind, verdict.certainty, holder)
}

const MAIN: &str = "local of main (train.py:3)";

#[test]
fn a_walk_proves_who_keeps_earlier_rounds() {
    let preds = || holder(HolderKind::Object, "m.preds[0…2]", MAIN, 8 * GIB);
    let of = with(vec![preds()], vec![kept(8 * GIB)]);
    assert_eq!(judged(&of), (Kind::KeptTensors, Certainty::Proven, Some(0)));
    let mut of = with(vec![preds()], vec![kept(8 * GIB)]);
    of.kept[0].is_graph = true;
    assert_eq!(
        judged(&of).0,
        Kind::KeptTensors,
        "the walk shows tensors, not graphs"
    );
    let graph = holder(HolderKind::Graph, "history[0…2]", MAIN, 8 * GIB);
    let mut of = with(vec![graph], vec![kept(8 * GIB)]);
    assert_eq!(judged(&of), (Kind::KeptGraphs, Certainty::Proven, Some(0)));
    of.kept[0].with_backward = 0;
    assert_eq!(judged(&of).0, Kind::NoBackward);
    let of = with(vec![preds(), preds()], Vec::new());
    assert_eq!(judged(&of), (Kind::Held, Certainty::Proven, Some(1)));
}

#[test]
fn the_graph_of_a_forward_that_runs_is_activations() {
    for place in ["local of Net.forward (net.py:3)", "of installed packages"] {
        let of = with(
            vec![holder(HolderKind::Graph, "x", place, 8 * GIB)],
            vec![kept(8 * GIB)],
        );
        let (kind, certainty, holder) = judged(&of);
        assert_eq!(
            (kind, certainty),
            (Kind::Activations, Certainty::Proven),
            "{place}"
        );
        assert_eq!(
            holder.is_some(),
            place.starts_with("local"),
            "what a package calls it says nothing"
        );
    }
}

#[test]
fn what_only_an_exception_or_a_cycle_keeps_comes_before_rounds() {
    let kinds = [
        (HolderKind::Traceback, Kind::Exception),
        (HolderKind::Cycle, Kind::Cycle),
    ];
    for (of_walk, expected) in kinds {
        let all = vec![
            holder(HolderKind::Object, "m.preds[0…2]", MAIN, 8 * GIB),
            holder(of_walk, "e → traceback", MAIN, 4 * GIB),
        ];
        let mut of = with(all, vec![kept(8 * GIB)]);
        assert_eq!(judged(&of), (expected, Certainty::Proven, Some(1)));
        if let Some(holders) = &mut of.holders {
            holders.all[1].bytes = GIB / 2;
        }
        assert_eq!(
            judged(&of).0,
            Kind::KeptTensors,
            "not enough for the request"
        );
    }
}

#[test]
fn a_list_that_a_running_call_builds_has_no_rounds() {
    let list = holder(
        HolderKind::Native,
        "list[0…6]",
        "native code or a running call",
        8 * GIB,
    );
    let of = with(vec![list], vec![kept(8 * GIB)]);
    assert_eq!(judged(&of), (Kind::Held, Certainty::Proven, Some(0)));
}

#[test]
fn an_object_without_rounds_is_named_if_it_keeps_much() {
    let mut of = with(
        vec![holder(HolderKind::Object, "buf[0…2]", MAIN, 7 * GIB)],
        Vec::new(),
    );
    assert_eq!(judged(&of), (Kind::Held, Certainty::Proven, Some(0)));
    let mut other = |holder: Holder| {
        if let Some(holders) = &mut of.holders {
            holders.all = vec![holder];
        }
        kind(&of)
    };
    let parameters = holder(HolderKind::Parameters, "model", MAIN, 7 * GIB);
    assert_eq!(other(parameters), Kind::Activations);
    let state = holder(HolderKind::Object, "opt.state[…]['exp_avg']", MAIN, 7 * GIB);
    assert_eq!(other(state), Kind::Activations);
    let little = holder(HolderKind::Object, "buf[0…2]", MAIN, 3 * GIB);
    assert_eq!(other(little), Kind::Activations);
    let one = Holder {
        blocks: 1,
        ..holder(HolderKind::Object, "x", MAIN, 7 * GIB)
    };
    assert_eq!(other(one), Kind::Activations);
}
