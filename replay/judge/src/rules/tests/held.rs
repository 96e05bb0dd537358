//! Rules about who keeps memory.

use gpumem_capture::Seq;
use gpumem_replay::names::Names;

use super::*;
use crate::facts::{Copied, Large, Running};
use crate::holders::{Holder, HolderKind, Holders};
use crate::words;

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
        covers: None,
        also: None,
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

/// What is true, and the advice.
fn texts(of: &Facts) -> (String, String) {
    let (names, verdict) = (Names::default(), judge(of));
    let advice = words::advice(&names, of, &verdict);
    (
        words::what(&names, of, &verdict),
        advice.unwrap_or_default(),
    )
}

#[test]
fn what_only_native_code_refers_to_is_not_called_a_running_call() {
    let of = |text: &str, place: &str| {
        let native = holder(HolderKind::Native, text, place, 8 * GIB);
        let of = with(vec![native], vec![kept(8 * GIB)]);
        (judged(&of).0, texts(&of).0)
    };
    let (kind, what) = of("tuple[1]", "native code or a running call");
    assert_eq!(kind, Kind::KeptTensors, "these are rounds");
    let says = "kept by objects of class tuple to which only native code or a running call refers, such as arguments of atexit.register";
    assert!(what.contains(says), "{what}");
    let (kind, what) = of("list[0…6]", "value of main (train.py:3)");
    assert_eq!(kind, Kind::Held);
    assert!(
        what.starts_with("a list that main (train.py:3) builds keeps"),
        "{what}"
    );
}

#[test]
fn clone_is_advised_only_of_views() {
    let preds = holder(HolderKind::Object, "preds[0…2]", MAIN, 8 * GIB);
    for (covers, advises) in [(None, false), (Some(8 * MIB), true)] {
        for kept in [vec![kept(8 * GIB)], Vec::new()] {
            let preds = Holder {
                covers,
                ..preds.clone()
            };
            let advice = texts(&with(vec![preds], kept)).1;
            let says = "; or .clone() them: they are views (slices, parts of .split()), 8.00 MiB of the 8.00 GiB that they keep";
            assert_eq!(advice.ends_with(says), advises, "{advice}");
            assert_eq!(advice.contains("clone"), advises, "{advice}");
        }
    }
}

#[test]
fn models_are_kept_with_their_gradients_and_optimizer_state() {
    let all = |kind, text: &str, bytes| holder(kind, text, MAIN, bytes);
    let members = || {
        vec![
            all(HolderKind::Gradients, "e.members[0…5].net", 2 * GIB),
            all(HolderKind::Parameters, "e.members[0…15].net", 6 * GIB),
            all(
                HolderKind::Object,
                "e.members[0…4].opt.state[…]['exp_avg']",
                2 * GIB,
            ),
            all(HolderKind::Object, "preds[0…2]", GIB),
        ]
    };
    let of = with(members(), vec![kept(2 * GIB)]);
    let verdict = judge(&of);
    assert_eq!((verdict.kind, verdict.bytes), (Kind::Held, 10 * GIB));
    let (what, advice) = texts(&of);
    let says = "keeps 10.0 GiB (71 % of live memory) in 9 blocks of parameters, gradients and optimizer state";
    assert!(
        what.starts_with(&format!("e.members[…], {MAIN} {says}")),
        "{what}"
    );
    assert!(
        advice.contains("with their gradients and optimizer state, on the host"),
        "{advice}"
    );
    let mut of = with(members(), vec![kept(10 * GIB)]);
    of.kept[0].of_models = true;
    assert_eq!(judge(&of).kind, Kind::EarlierModels);
    assert!(texts(&of).0.contains("kept by e.members[…], local of main"));
    let gradients = all(HolderKind::Gradients, "e.members[0…5].net", 8 * GIB);
    let of = with(vec![gradients], vec![kept(8 * GIB)]);
    assert!(
        texts(&of).0.contains("kept by the gradients of"),
        "nothing else of them is there"
    );
}

#[test]
fn earlier_optimizers_are_dropped() {
    let state = |text: &str| holder(HolderKind::Object, text, MAIN, 4 * GIB);
    let of = |texts: [&str; 2]| with(texts.map(state).into(), Vec::new());
    let several = of([
        "all[0…9].optimizer.state[…]['exp_avg']",
        "all[0…9].optimizer.state[…]['exp_avg_sq']",
    ]);
    let (what, advice) = texts(&several);
    assert!(
        what.starts_with("all[…], local of main (train.py:3) keeps 8.00 GiB"),
        "{what}"
    );
    assert!(what.contains("of optimizer state"), "{what}");
    assert!(
        advice.starts_with("drop the earlier optimizers, or what keeps them in all"),
        "{advice}"
    );
    let one = of([
        "opt.state[…]['old_dirs'][0…9]",
        "opt.state[…]['old_stps'][0…9]",
    ]);
    assert_eq!(judge(&one).kind, Kind::Activations, "it has only one");
}

#[test]
fn what_the_graph_of_a_running_forward_needs_is_kept_by_no_container() {
    let kinds = [
        (HolderKind::Object, "net.hidden[0…2]"),
        (HolderKind::Graph, "net.states[2]"),
    ];
    for (of_walk, text) in kinds {
        let mut of = with(vec![holder(of_walk, text, MAIN, 8 * GIB)], Vec::new());
        of.request.in_forward = true;
        let large = |address| Large {
            address,
            bytes: 2 * GIB,
            seq: Seq(1),
            part: 0,
            running: Running::Yes,
        };
        of.largest = [1, 2, 3].map(large).into();
        assert_eq!(judged(&of).0, Kind::Activations, "{text}");
        of.largest
            .iter_mut()
            .for_each(|of| of.running = Running::Perhaps);
        assert_eq!(judged(&of).0, Kind::Activations, "{text}: an attribute");
        of.largest
            .iter_mut()
            .for_each(|of| of.running = Running::No);
        let earlier = judged(&of).0;
        assert_eq!(earlier, Kind::Held, "{text}: it is of an earlier round");
    }
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
fn detach_is_advised_only_where_there_is_a_graph() {
    let names = Names::default();
    let advice = |of: &Facts| words::advice(&names, of, &judge(of)).unwrap_or_default();
    let preds = || holder(HolderKind::Object, "m.preds[0…2]", MAIN, 8 * GIB);
    let of = with(vec![preds()], vec![kept(8 * GIB)]);
    assert!(!advice(&of).contains("detach"), "{}", advice(&of));
    let graph = holder(HolderKind::Graph, "m.preds[0…2]", MAIN, GIB);
    let of = with(vec![preds(), graph], vec![kept(8 * GIB)]);
    assert!(advice(&of).contains("detach"), "{}", advice(&of));
    let state = holder(HolderKind::Graph, "state", MAIN, 8 * GIB);
    let of = with(vec![state], vec![kept(8 * GIB)]);
    assert!(advice(&of).starts_with("one graph goes through the rounds"));
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
fn an_outer_product_of_two_variables_is_one() {
    let variable = |text: &str, bytes| Holder {
        blocks: 1,
        ..holder(HolderKind::Object, text, MAIN, bytes)
    };
    let advice = |bytes: u64| {
        let mut of = with(
            vec![variable("pred", 65_536), variable("y", 65_536)],
            Vec::new(),
        );
        (of.live, of.request.bytes) = (1 << 20, bytes);
        let verdict = judge(&of);
        assert_eq!(verdict.kind, Kind::LargeRequest);
        words::advice(&Names::default(), &of, &verdict).unwrap()
    };
    assert!(advice(16_384 * 16_384 * 4).starts_with("check the shapes of pred and y"));
    assert!(advice(16_384 * 16_000 * 4).starts_with("limit the size"));
}

#[test]
fn the_walk_of_an_earlier_failure_is_likely() {
    let preds = holder(HolderKind::Object, "m.preds[0…2]", MAIN, 8 * GIB);
    let mut of = with(vec![preds], vec![kept(8 * GIB)]);
    of.holders.as_mut().unwrap().is_earlier = true;
    assert_eq!(judged(&of), (Kind::KeptTensors, Certainty::Likely, Some(0)));
}
