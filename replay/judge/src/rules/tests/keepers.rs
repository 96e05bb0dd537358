//! Which of several things that keep memory is named.

use gpumem_capture::{Seq, StackId};
use gpumem_replay::names::Names;

use super::held::{MAIN, holder, judged, with};
use super::*;
use crate::facts::{Large, Longer, Running};
use crate::holders::{Holder, HolderKind};
use crate::words;

/// What is true, and the advice.
pub(super) fn texts(of: &Facts) -> (String, String) {
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
    let (kind, what) = of("list[0…6]", "native code or main (train.py:3)");
    assert_eq!(kind, Kind::Held);
    assert!(
        what.starts_with("a list that main (train.py:3) builds keeps"),
        "{what}"
    );
}

#[test]
fn what_a_container_has_of_each_round_comes_before_fragmentation() {
    let unusable = |holders: Vec<Holder>| {
        let mut of = with(holders, vec![kept(4 * GIB)]);
        of.cache = in_small_blocks();
        judge(&of).kind
    };
    let list = holder(HolderKind::Object, "norms[0…2]", MAIN, 4 * GIB);
    assert_eq!(unusable(vec![list]), Kind::KeptTensors);
    assert_eq!(unusable(Vec::new()), Kind::Fragmentation);
}

#[test]
fn gradients_with_graphs_are_no_place_for_detach() {
    let graph = holder(HolderKind::Graph, "gradients of net", MAIN, 8 * GIB);
    let of = with(vec![graph], vec![kept(8 * GIB)]);
    let (what, advice) = texts(&of);
    assert!(what.contains("kept by the graph of gradients of net"));
    assert!(advice.starts_with("backward(create_graph=True) makes gradients with graphs"));
}

#[test]
fn of_two_lists_with_the_same_graphs_both_are_named() {
    let graph = Holder {
        also: Some("values, global of __main__".into()),
        ..holder(HolderKind::Graph, "logprobs[0…2]", MAIN, 8 * GIB)
    };
    let of = with(vec![graph], vec![kept(8 * GIB)]);
    let (what, advice) = texts(&of);
    assert!(what.ends_with("; also by values, global of __main__"));
    assert!(
        advice.starts_with("store .detach() of the tensor in logprobs and in values,"),
        "{advice}"
    );
}

#[test]
fn parameters_to_which_only_an_optimizer_refers_were_replaced() {
    let all = |old: u64| {
        let state = Holder {
            blocks: 9,
            ..holder(HolderKind::Object, "opt.state[…]['exp_avg']", MAIN, 4 * GIB)
        };
        let old = holder(HolderKind::Object, "opt.state[…]", MAIN, old);
        let net = holder(HolderKind::Parameters, "net", MAIN, GIB);
        with(vec![state, old, net], Vec::new())
    };
    let of = all(2 * GIB);
    assert_eq!(judged(&of).0, Kind::Held);
    let (what, advice) = texts(&of);
    assert!(
        what.starts_with("parameters that the program has replaced, and to which only opt, local"),
        "{what}"
    );
    assert!(advice.contains("make a new optimizer"), "{advice}");
    assert_ne!(judged(&all(GIB / 2)).0, Kind::Held, "a small part");
    let mut of = of;
    let all = &mut of.holders.as_mut().unwrap().all;
    all[0].blocks = 3;
    all.push(holder(
        HolderKind::Object,
        "next.state[…]['exp_avg']",
        MAIN,
        GIB,
    ));
    let (what, advice) = texts(&of);
    assert!(what.starts_with("parameters whose model is gone"), "{what}");
    assert_eq!(advice, "del opt with its model");
    // Optimizers that a container has were not replaced in one.
    let text = "optimizers[1…6].state[…]";
    let old = holder(HolderKind::Object, text, MAIN, 8 * GIB);
    assert!(!old.is_only_of_optimizer());
    let models = Kept {
        of_models: true,
        ..kept(8 * GIB)
    };
    let (what, advice) = texts(&with(vec![old], vec![models]));
    assert!(what.starts_with("models of 3 earlier rounds"), "{what}");
    assert!(advice.starts_with("drop the earlier optimizers, or what keeps them in optimizers"));
}

#[test]
fn what_something_else_has_too_does_not_count_for_a_checkpoint() {
    let part = |text: &str, bytes, frees| Holder {
        frees: Some(frees),
        ..holder(HolderKind::Object, text, MAIN, bytes)
    };
    let kind = |frees| {
        let model = part("ckpt['model'][…]", 3 * GIB, 3 * GIB);
        let state = part("ckpt['optim'][0…3]['exp_avg']", 5 * GIB, frees);
        judged(&with(vec![model, state], Vec::new())).0
    };
    assert_eq!(kind(5 * GIB), Kind::Held);
    assert_ne!(kind(0), Kind::Held, "the optimizer has it");
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
            stack: StackId::NONE,
            running: Running::Yes,
            is_of_round: false,
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
fn outputs_that_backwards_use_again_are_dropped_after_the_last_one() {
    let graph = holder(HolderKind::Graph, "saved[0…2]", MAIN, 8 * GIB);
    let mut of = with(vec![graph], vec![kept(8 * GIB)]);
    of.kept[0].is_graph = true;
    let advice = texts(&of).1;
    assert!(!advice.contains("drop"), "{advice}");
    of.kept[0].was_used = true;
    let advice = texts(&of).1;
    let says = "drop the others there after the backward that uses them";
    assert!(advice.contains(says), "{advice}");
}

#[test]
fn a_model_is_made_while_the_one_before_is_live() {
    let of = |seq: u64, stack, text: &str| {
        let model = holder(HolderKind::Parameters, text, MAIN, 8 * GIB);
        let mut of = with(vec![model], Vec::new());
        of.request.seq = Seq(100);
        of.request.stacks.py = StackId(7);
        of.parts[0].category = Category::Parameter;
        of.largest = [1, 2, 3]
            .map(|address| Large {
                address,
                bytes: 2 * GIB,
                seq: Seq(seq),
                part: 0,
                stack: StackId(stack),
                running: Running::No,
                is_of_round: false,
            })
            .into();
        of
    };
    let (what, advice) = texts(&of(1, 7, "service.model"));
    assert!(
        what.ends_with("makes a model while the one before is still live: 8.00 GiB (57 % of live memory) in 3 blocks, kept by service.model, local of main (train.py:3)"),
        "{what}"
    );
    assert!(advice.starts_with("del service.model, or"), "{advice}");
    let others = [
        of(90, 7, "service.model"),
        of(1, 8, "service.model"),
        of(1, 7, "layers[0…3]"),
    ];
    for other in others {
        assert_ne!(judge(&other).kind, Kind::Held, "one model");
    }
}

#[test]
fn what_is_computed_from_what_becomes_longer_is_a_part_of_it() {
    let line = |line| {
        Owner::Line(
            Line {
                file: "/train.py".into(),
                relative: None,
                line,
                function: "main".into(),
            },
            None,
        )
    };
    let longer = |at, bytes, is_computed, rises| Longer {
        owner: line(at),
        figure: Figure { bytes, blocks: 1 },
        // Nothing has what is computed.
        blocks: vec![(if at == 7 { 1 } else { 9 }, bytes)],
        rises,
        rise: (bytes / 8, bytes / 8),
        is_computed,
    };
    let of = |rises, holders| {
        let mut of = with(holders, Vec::new());
        of.longer = vec![
            longer(7, GIB, false, rises),
            longer(9, 4 * GIB, true, rises),
        ];
        of
    };
    // A forward puts it into an attribute.
    let mut bank = of(5, vec![holder(HolderKind::Object, "net.queue", MAIN, GIB)]);
    bank.longer.iter_mut().for_each(|of| of.is_computed = true);
    let (what, advice) = texts(&bank);
    assert!(what.contains("kept by net.queue, local of main"), "{what}");
    assert!(advice.starts_with("limit its length"), "{advice}");
    let queue = holder(HolderKind::Parameters, "net", MAIN, GIB);
    let (what, _) = texts(&of(5, vec![queue]));
    assert!(
        what.starts_with("what /train.py:7 allocates becomes larger each time: 1.00 GiB in 1 block now, at least 128 MiB more in each of the last 5 times; with what is computed from it 5.00 GiB (36 % of live memory); kept by the parameters and buffers of net, local of main (train.py:3)"),
        "{what}"
    );
    assert_ne!(
        judge(&of(3, Vec::new())).kind,
        Kind::Lengthened,
        "by chance"
    );
    let graph = holder(HolderKind::Graph, "loss", MAIN, GIB);
    assert_ne!(
        judge(&of(5, vec![graph])).kind,
        Kind::Lengthened,
        "none is kept"
    );
}

#[test]
fn a_model_that_was_trained_before_the_newest_one_is_named() {
    let part = |kind, text: &str, seq: u64| (holder(kind, text, MAIN, 3 * GIB), seq);
    let of = |parts: Vec<(Holder, u64)>| {
        let large = |address: usize, seq: u64| Large {
            address: address as u64,
            bytes: 3 * GIB,
            seq: Seq(seq),
            part: 0,
            stack: StackId::NONE,
            running: Running::No,
            is_of_round: false,
        };
        let (holders, seqs): (Vec<Holder>, Vec<u64>) = parts.into_iter().unzip();
        let mut of = with(holders, Vec::new());
        of.parts[0].category = Category::Parameter;
        of.largest = seqs
            .iter()
            .enumerate()
            .map(|(at, seq)| large(at, *seq))
            .collect();
        let walk = of.holders.as_mut().expect("holders");
        walk.blocks = (0..seqs.len()).map(|at| (at as u64, at)).collect();
        of
    };
    let (parameters, gradients) = (HolderKind::Parameters, HolderKind::Gradients);
    let mut parts = vec![
        part(parameters, "first.net", 1),
        part(HolderKind::Object, "first.opt.state[…]['exp_avg']", 2),
        part(gradients, "first.net", 3),
        part(parameters, "second.net", 10),
    ];
    assert!(
        !texts(&of(parts.clone())).0.starts_with("first"),
        "a copy is not trained"
    );
    parts.push(part(gradients, "second.net", 12));
    let (what, advice) = texts(&of(parts.clone()));
    let says = "first, local of main (train.py:3) keeps 9.00 GiB (64 % of live memory) in 9 blocks of parameters, gradients and optimizer state";
    assert!(what.starts_with(says), "{what}");
    assert!(
        advice
            .starts_with("del first before the next model is trained, if nothing uses what it has")
    );
    // Its gradients were made again since.
    parts[2].1 = 11;
    parts.remove(1);
    assert!(!texts(&of(parts)).0.starts_with("first"));
}
