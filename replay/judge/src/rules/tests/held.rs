//! Rules about who keeps memory.

use gpumem_replay::names::Names;

use super::*;
use crate::facts::Copied;
use crate::holders::{Holder, HolderKind, Holders};
use crate::words;

/// A holder of these bytes.
pub(super) fn holder(kind: HolderKind, text: &str, place: &str, bytes: u64) -> Holder {
    Holder {
        kind,
        is_own: !place.contains("packages"),
        text: text.into(),
        place: place.into(),
        bytes,
        blocks: 3,
        frees: None,
        covers: None,
        double: 0,
        unused: false,
        also: None,
    }
}

/// The facts, with what a walk found. The first holder has the blocks of [`kept`].
pub(super) fn with(all: Vec<Holder>, kept: Vec<Kept>) -> Facts {
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

pub(super) fn judged(of: &Facts) -> (Kind, Certainty, Option<usize>) {
    let verdict = judge(of);
    let holder = verdict.holders.first().copied();
    (verdict.kind, verdict.certainty, holder)
}

pub(super) const MAIN: &str = "local of main (train.py:3)";

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
    let parts = ["m.preds['a'][0…2]", "m.preds['b'][0…2]"];
    let parts = parts.map(|text| holder(HolderKind::Object, text, MAIN, 4 * GIB));
    let of = with(parts.to_vec(), Vec::new());
    assert_eq!(judged(&of), (Kind::Held, Certainty::Proven, Some(0)));
    assert_eq!(judge(&of).bytes, 8 * GIB, "it has both");
}

#[test]
fn the_graph_of_a_forward_that_runs_is_activations() {
    for place in ["local of Net.forward (net.py:3)", "of installed packages"] {
        let of = with(
            vec![holder(HolderKind::Graph, "x", place, 8 * GIB)],
            vec![kept(8 * GIB)],
        );
        assert_eq!(
            judged(&of),
            (Kind::Activations, Certainty::Proven, None),
            "{place}: that a forward that runs has its graph says nothing"
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

/// Two lines with as much each, of which holders with these names have the blocks.
fn copied(kind: HolderKind, text: &str, live: u64) -> Facts {
    let all = vec![
        holder(HolderKind::Parameters, "net", MAIN, 3 * GIB),
        holder(kind, text, MAIN, 3 * GIB),
    ];
    let mut of = with(all, Vec::new());
    let line = |address| Copied {
        owner: Owner::Unknown,
        figure: figure(3 * GIB, 1),
        blocks: vec![(address, 3 * GIB)],
    };
    of.copies = vec![line(1), line(2)];
    if let Some(holders) = &mut of.holders {
        holders.blocks = [(1, 0), (2, 1)].into_iter().collect();
    }
    of.live = live;
    of
}

#[test]
fn a_container_with_as_much_as_a_model_is_a_copy_of_it() {
    let of = copied(HolderKind::Object, "state['weight']", 16 * GIB);
    assert_eq!(judged(&of), (Kind::Copies, Certainty::Likely, Some(1)));
    let advice = words::advice(&Names::default(), &of, &judge(&of));
    assert!(advice.is_some_and(|text| text.starts_with("del state when")));
    let of = copied(HolderKind::Object, "x", 16 * GIB);
    assert_eq!(kind(&of), Kind::Activations, "no container, and little");
    let of = copied(HolderKind::Parameters, "teacher", 16 * GIB);
    assert_eq!(kind(&of), Kind::Activations, "a model may be needed");
    let of = copied(HolderKind::Parameters, "teacher", 13 * GIB);
    assert_eq!(kind(&of), Kind::Copies);
}

#[test]
fn models_of_one_container_are_too_many_models() {
    let of = |names: [&str; 2]| {
        let models = names.map(|name| holder(HolderKind::Parameters, name, MAIN, 7 * GIB));
        let mut of = with(models.into(), Vec::new());
        of.parts[0].category = Category::Parameter;
        of
    };
    let several = of(["models['a']", "models['b']"]);
    assert_eq!(judged(&several), (Kind::Model, Certainty::Proven, Some(0)));
    let others = of(["net.layers[0]", "judge[1]"]);
    assert_eq!(judged(&others), (Kind::Model, Certainty::Follows, None));
}

#[test]
fn calls_that_run_at_the_same_time_are_no_rounds() {
    let place = "local of 5 calls of handle (serve.py:3)";
    let of = with(
        vec![holder(HolderKind::Object, "x", place, 8 * GIB)],
        vec![kept(8 * GIB)],
    );
    assert_eq!(judged(&of), (Kind::Held, Certainty::Proven, Some(0)));
    let of = with(
        vec![holder(HolderKind::Object, "x", MAIN, 8 * GIB)],
        vec![kept(8 * GIB)],
    );
    assert_eq!(judged(&of).0, Kind::KeptTensors);
}

#[test]
fn a_variable_of_calls_is_deleted_only_where_they_do_not_read_it_again() {
    let place = "local of 5 suspended calls of handle (serve.py:3)";
    for unused in [true, false] {
        let mut x = holder(HolderKind::Object, "x", place, 8 * GIB);
        x.unused = unused;
        let of = with(vec![x], vec![kept(8 * GIB)]);
        let advice = words::advice(&Names::default(), &of, &judge(&of)).unwrap_or_default();
        let del = "del x before a call waits: it does not use it again; or let fewer";
        assert_eq!(advice.contains(del), unused, "{advice}");
        assert_eq!(advice.contains("del "), unused, "{advice}");
    }
}

#[test]
fn detach_is_advised_only_where_there_is_a_graph() {
    let names = Names::default();
    let advice = |of: &Facts| words::advice(&names, of, &judge(of)).unwrap_or_default();
    let preds = || holder(HolderKind::Object, "m.preds[0…2]", MAIN, 8 * GIB);
    let without = Kept {
        is_no_grad: true,
        ..kept(8 * GIB)
    };
    let of = with(vec![preds()], vec![without]);
    assert!(advice(&of).ends_with(" with .cpu()"), "{}", advice(&of));
    // The graph of a softmax has the tensor itself, and is not named.
    let of = with(vec![preds()], vec![kept(8 * GIB)]);
    assert!(
        advice(&of).ends_with(" with .detach().cpu()"),
        "{}",
        advice(&of)
    );
    let goes_through = |text| {
        let state = holder(HolderKind::Graph, text, MAIN, 8 * GIB);
        let rounds = Kept {
            of: 6,
            with_backward: 6,
            ..kept(8 * GIB)
        };
        let of = with(vec![state], vec![rounds]);
        advice(&of).starts_with("one graph goes through the rounds")
    };
    assert!(goes_through("state"));
    assert!(goes_through("hidden[0…1][0]"), "the states of two layers");
    assert!(!goes_through("losses[0…9]") && !goes_through("m.h[0…1]"));
}

#[test]
fn a_container_with_little_of_a_round_that_has_ended_counts_if_the_request_would_have_fitted() {
    let graph = |text| holder(HolderKind::Graph, text, MAIN, 2 * GIB);
    let previous = || Kept {
        is_growth: false,
        ..kept(2 * GIB)
    };
    let of = with(vec![graph("history[0]")], vec![previous()]);
    assert_eq!(
        judged(&of),
        (Kind::PreviousRound, Certainty::Proven, Some(0))
    );
    let advice = words::advice(&Names::default(), &of, &judge(&of));
    assert!(advice.is_some_and(|text| text.contains(".detach() of the tensor in history")));
    let of = with(vec![graph("loss")], vec![previous()]);
    assert_eq!(
        kind(&of),
        Kind::Activations,
        "the next round binds it again"
    );
    let mut of = with(vec![graph("history[0]")], vec![previous()]);
    of.request.bytes = 4 * GIB;
    assert_eq!(kind(&of), Kind::Activations, "not enough for the request");
}

#[test]
fn graphs_that_a_backward_has_used_are_kept_after_it() {
    let graph = holder(HolderKind::Graph, "policy.saved[0…2][0]", MAIN, 8 * GIB);
    let mut of = with(vec![graph], vec![kept(8 * GIB)]);
    (of.kept[0].with_backward, of.kept[0].was_used) = (0, true);
    assert_eq!(judged(&of), (Kind::KeptGraphs, Certainty::Proven, Some(0)));
    let advice = words::advice(&Names::default(), &of, &judge(&of)).unwrap();
    assert!(advice.starts_with("drop the tensors in policy.saved after the backward"));
}

#[test]
fn what_no_object_has_is_not_dropped_by_name() {
    let mut of = with(Vec::new(), vec![kept(8 * GIB)]);
    let text = |of: &Facts| words::what(&Names::default(), of, &judge(of));
    assert!(
        text(&of).ends_with("; no Python object has them"),
        "{}",
        text(&of)
    );
    of.kept[0].of_models = true;
    assert_eq!(judged(&of).0, Kind::KeptTensors);
    of.kept[0].lines[0].in_forward = true;
    let advice = words::advice(&Names::default(), &of, &judge(&of)).unwrap();
    assert!(advice.contains("torch.autocast()"), "{advice}");
    of.kept[0].is_of_second_order = true;
    let advice = words::advice(&Names::default(), &of, &judge(&of)).unwrap();
    assert!(advice.contains("create_graph=True"), "{advice}");
    // A walk that was cut does not know.
    of.holders.as_mut().unwrap().cut = Some("time".into());
    assert_eq!(judged(&of).0, Kind::EarlierModels);
}

#[test]
fn small_blocks_of_one_holder_show_it() {
    let buffer = holder(HolderKind::Object, "memory[0…2]", MAIN, 8 * GIB);
    let mut of = with(vec![buffer], vec![kept(8 * GIB)]);
    // The walk lists one block of a hundredth of the bytes.
    of.kept[0].blocks = vec![(1, 8 * GIB / 100), (9, 8 * GIB / 100 * 99)];
    assert_eq!(judged(&of), (Kind::KeptTensors, Certainty::Proven, Some(0)));
    of.holders.as_mut().unwrap().all[0].bytes = GIB;
    assert_eq!(judged(&of).2, None, "it has not as much");
}

#[test]
fn a_variable_has_what_its_nested_dictionaries_have() {
    let part = |text: &str| holder(HolderKind::Object, text, MAIN, 3 * GIB);
    let of = with(
        vec![part("ckpt['opt'][0…2]"), part("ckpt['model']['w']")],
        Vec::new(),
    );
    assert_eq!(judged(&of), (Kind::Held, Certainty::Proven, Some(0)));
    let verdict = judge(&of);
    assert_eq!(verdict.bytes, 6 * GIB);
    let text = words::what(&Names::default(), &of, &verdict);
    assert!(text.starts_with("ckpt[…], local of main (train.py:3) keeps 6.00 GiB"));
}

#[test]
fn the_walk_of_an_earlier_failure_is_likely() {
    let preds = holder(HolderKind::Object, "m.preds[0…2]", MAIN, 8 * GIB);
    let mut of = with(vec![preds], vec![kept(8 * GIB)]);
    of.holders.as_mut().unwrap().is_earlier = true;
    assert_eq!(judged(&of), (Kind::KeptTensors, Certainty::Likely, Some(0)));
}
