//! The request as a cause, rounds of a loop within a trained one, and what an evaluation keeps.

use super::held::{MAIN, holder, judged, with};
use super::keepers::texts;
use super::*;
use crate::facts::{Large, Longer, Running};
use crate::holders::{Holder, HolderKind};

#[test]
fn a_first_request_of_as_much_as_any_line_has_is_the_cause() {
    let mut of = facts();
    (of.request.bytes, of.parts[0].figure.bytes) = (8 * GIB, 7 * GIB);
    assert_eq!(kind(&of), Kind::LargeRequest);
    let (what, advice) = texts(&of);
    assert!(
        what.ends_with("requests 8.00 GiB at once, beside 14.0 GiB that are live"),
        "{what}"
    );
    assert!(advice.starts_with("request less at once"), "{advice}");
    of.request.largest_before = Some(8 * GIB);
    assert_eq!(kind(&of), Kind::Activations, "it got as much before");
    of.request.largest_before = None;
    of.request.bytes = 6 * GIB;
    assert_eq!(kind(&of), Kind::Activations, "a line has more");
    (of.live, of.request.bytes) = (0, 9 * GIB);
    of.parts.clear();
    assert_eq!(kind(&of), Kind::LargeRequest);
    assert!(
        texts(&of)
            .0
            .ends_with("requests 9.00 GiB at once, while nothing else is live")
    );
    of.request.bytes = MIB;
    assert_eq!(kind(&of), Kind::Unknown, "contexts may have the card");
}

#[test]
fn a_request_of_more_than_the_card_is_compared_with_those_before() {
    let mut of = facts();
    of.request.bytes = 17 * GIB;
    assert!(texts(&of).1.starts_with("check the requested size"));
    (of.request.largest_before, of.request.allocations_before) = (Some(6 * MIB), 12);
    of.request.in_forward = true;
    let (what, advice) = texts(&of);
    assert!(
        what.ends_with(
            "17.0 GiB of 16.0 GiB; the largest of its 12 allocations before was 6.00 MiB"
        ),
        "{what}"
    );
    assert!(
        advice.starts_with("limit the size of a batch, or its longest sequence"),
        "{advice}"
    );
}

#[test]
fn rounds_of_a_loop_within_are_parts_of_those_that_a_backward_ends() {
    let graph = holder(HolderKind::Graph, "hidden[0]", MAIN, 8 * GIB);
    let inner = Kept {
        with_backward: 13,
        of: 200,
        rounds: 201,
        is_graph: true,
        was_used: true,
        ..kept(8 * GIB)
    };
    let outer = Kept {
        with_backward: 13,
        of: 13,
        rounds: 14,
        ..inner.clone()
    };
    let of = with(vec![graph], vec![outer, inner]);
    assert_eq!(
        (judged(&of).0, judge(&of).of_loop),
        (Kind::KeptGraphs, Some(0))
    );
    let (what, advice) = texts(&of);
    assert!(
        what.starts_with("autograd graphs of 13 earlier rounds"),
        "{what}"
    );
    assert!(
        advice.starts_with("one graph goes through the rounds: .detach() what a round passes"),
        "{advice}"
    );
    let mut unused = of;
    unused
        .kept
        .iter_mut()
        .for_each(|kept| kept.was_used = false);
    assert_eq!(
        judge(&unused).of_loop,
        Some(1),
        "other forwards have the backward"
    );
}

#[test]
fn a_line_of_a_model_is_no_place_for_detach() {
    let mut of = facts();
    of.kept = vec![Kept {
        is_graph: true,
        ..kept(8 * GIB)
    }];
    assert!(texts(&of).1.contains("store .detach() of the tensor"));
    of.kept[0].lines[0].in_forward = true;
    assert!(
        texts(&of)
            .1
            .starts_with("where a result of a round is kept")
    );
}

#[test]
fn states_of_earlier_optimizers_come_before_free_memory_in_pieces() {
    let state = |text: &str| holder(HolderKind::Object, text, MAIN, 3 * GIB);
    let mut of = with(
        vec![
            state("plan.schedulers[0…7].optimizer.state[…]['exp_avg']"),
            state("plan.schedulers[0…7].optimizer.state[…]['exp_avg_sq']"),
        ],
        Vec::new(),
    );
    (of.live, of.tensors) = (8 * GIB, 8 * GIB);
    let usable = Free {
        bytes: 7 * GIB,
        blocks: 9,
        largest: GIB / 2,
        segments: 3,
        whole: 0,
    };
    of.cache = Some(Cache {
        usable,
        reserved: 15 * GIB,
        ..Cache::default()
    });
    let (what, advice) = texts(&of);
    assert!(
        what.starts_with("plan.schedulers[…], local of main (train.py:3) keeps 6.00 GiB"),
        "{what}"
    );
    assert!(
        advice.starts_with("drop the earlier optimizers, or what keeps them in plan.schedulers"),
        "{advice}"
    );
    let all = &mut of.holders.as_mut().unwrap().all;
    all.push(holder(
        HolderKind::Parameters,
        "plan.schedulers[0…7].net",
        MAIN,
        GIB,
    ));
    assert_eq!(
        judged(&of).0,
        Kind::Fragmentation,
        "models in use have optimizers"
    );
}

#[test]
fn a_forward_without_a_backward_may_be_an_evaluation() {
    let model = |name, bytes| holder(HolderKind::Parameters, name, MAIN, bytes);
    let mut of = with(vec![model("net", GIB), model("best", GIB)], Vec::new());
    assert!(texts(&of).1.starts_with("use a smaller batch"));
    of.holders.as_mut().unwrap().all[1] = model("teacher", 2 * GIB);
    assert!(
        texts(&of).1.starts_with("use a smaller batch"),
        "after a step"
    );
    of.steps = 0;
    let advice = texts(&of).1;
    assert!(
        advice.starts_with("use torch.no_grad() for the forward of a model that is not trained"),
        "{advice}"
    );
    let mut of = facts();
    of.request.is_without_backward = true;
    assert!(
        texts(&of).1.starts_with(
            "evaluating, or a model that is not trained: use torch.no_grad(); training:"
        )
    );
}

#[test]
fn what_a_running_step_needs_is_no_cause() {
    let mut of = with(
        vec![holder(HolderKind::Graph, "student", MAIN, 8 * GIB)],
        Vec::new(),
    );
    of.request.in_forward = true;
    let large = |address| Large {
        address,
        bytes: 2 * GIB,
        seq: gpumem_capture::Seq(1),
        part: 0,
        stack: gpumem_capture::StackId::NONE,
        running: Running::No,
        is_of_round: true,
    };
    of.largest = [1, 2, 3].map(large).into();
    assert_eq!(judged(&of).0, Kind::Activations);
    of.largest[0].is_of_round = false;
    assert_eq!(judged(&of).0, Kind::Held);
}

#[test]
fn blocks_that_one_operator_works_with_are_no_rounds() {
    let mut of = with(
        Vec::new(),
        vec![Kept {
            is_line: true,
            with_backward: 0,
            ..kept(8 * GIB)
        }],
    );
    of.holders.as_mut().unwrap().blocks.clear();
    assert_eq!(judged(&of).0, Kind::Activations);
    of.kept[0].figure.blocks = 5;
    assert_ne!(judged(&of).0, Kind::Activations);
}

#[test]
fn the_result_of_the_round_before_is_named_if_a_variable_has_it() {
    let before = Kept {
        is_growth: false,
        is_until_request: true,
        of: 1,
        ..kept(8 * GIB)
    };
    let mut of = with(
        vec![holder(HolderKind::Object, "out", MAIN, 8 * GIB)],
        vec![before],
    );
    assert_eq!(judged(&of).0, Kind::Activations, "it may be bound again");
    of.request.in_forward = true;
    assert_eq!(
        judged(&of),
        (Kind::PreviousRound, Certainty::Proven, Some(0))
    );
    assert!(texts(&of).1.starts_with("end a round with del out"));
}

#[test]
fn lines_that_grow_together_are_one_cause() {
    let line = |line| {
        let at = Line {
            file: "/cache.py".into(),
            relative: None,
            line,
            function: "append".into(),
        };
        Owner::Line(at, None)
    };
    let longer = |at, is_computed| Longer {
        owner: line(at),
        figure: figure(3 * GIB, 2),
        blocks: vec![(at.into(), 3 * GIB)],
        rises: 9,
        rise: (GIB / 8, GIB / 8),
        is_computed,
    };
    let mut of = facts();
    of.longer = vec![longer(8, false), longer(9, false)];
    let text = "what /cache.py:9 and /cache.py:8 allocate becomes larger each time: 6.00 GiB (43 % of live memory) in 4 blocks now";
    assert!(texts(&of).0.starts_with(text), "{}", texts(&of).0);
    // facts() has 1 GiB free on the card.
    assert!(texts(&of).0.ends_with("free, but in smaller blocks"));
    assert!(
        texts(&of)
            .1
            .contains("; not tried: PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True")
    );
    let mut list = of.clone();
    list.holders = with(
        vec![holder(HolderKind::Object, "cache[0…7]", MAIN, 6 * GIB)],
        Vec::new(),
    )
    .holders;
    list.holders.as_mut().unwrap().blocks = [(8, 0), (9, 0)].into_iter().collect();
    assert!(!texts(&list).1.contains("not tried"), "{}", texts(&list).1);
    of.longer = vec![longer(8, true), longer(9, true)];
    let (what, advice) = texts(&of);
    assert!(what.starts_with(text), "{what}");
    assert!(
        advice.starts_with("limit what it is computed from"),
        "{advice}"
    );
    of.longer.iter_mut().for_each(|of| of.rises = 7);
    assert_eq!(kind(&of), Kind::Activations, "a batch may grow by chance");
}

#[test]
fn foreach_is_advised_where_what_it_holds_is_enough() {
    let mut of = facts();
    of.parts[0].category = Category::OptimizerState;
    of.reserved = of.tensors;
    assert_eq!(kind(&of), Kind::OptimizerState);
    of.foreach = 3 * GIB - 1;
    assert!(!texts(&of).1.contains("foreach"), "it lacks {GIB}");
    of.foreach = 3 * GIB;
    assert!(texts(&of).1.starts_with("pass foreach=False"));
}

#[test]
fn item_is_advised_of_single_values() {
    let last = |bytes| KeptLine {
        figure: figure(bytes, 3),
        ..kept(bytes).lines[0].clone()
    };
    let advice = |last: Option<KeptLine>| {
        let mut of = facts();
        of.kept = vec![Kept {
            is_graph: true,
            last,
            ..kept(8 * GIB)
        }];
        texts(&of).1
    };
    assert!(advice(Some(last(3 * 512))).contains("store .item() or .detach() of"));
    assert!(advice(Some(last(3 * 4096))).contains("store .detach() of"));
    assert!(advice(None).contains("store .detach() of"));
}

#[test]
fn allocations_of_a_line_are_counted_as_blocks() {
    let mut of = facts();
    of.kept = vec![Kept {
        is_line: true,
        of: 200,
        rounds: 230,
        figure: figure(8 * GIB, 227),
        ..kept(8 * GIB)
    }];
    let what = texts(&of).0;
    assert!(
        what.starts_with("tensors of 227 earlier allocations are still live"),
        "{what}"
    );
}

#[test]
fn a_store_of_a_fixed_length_is_to_have_less() {
    let mut of = facts();
    of.kept = vec![kept(8 * GIB)];
    assert!(texts(&of).1.starts_with("drop the references to them"));
    of.kept[0].is_window = true;
    assert!(
        texts(&of)
            .1
            .starts_with("let what keeps them have fewer of them")
    );
}

#[test]
fn a_graph_through_rounds_cannot_have_a_backward_in_each() {
    let state = holder(HolderKind::Graph, "state", MAIN, 8 * GIB);
    let outs = holder(HolderKind::Graph, "outs[0…2]", MAIN, 8 * GIB);
    let advice = |of: Holder, bytes| {
        let kept = Kept {
            with_backward: 0,
            ..kept(8 * GIB)
        };
        let tensor = Holder {
            kind: HolderKind::Object,
            bytes,
            ..of.clone()
        };
        texts(&with(vec![of, tensor], vec![kept])).1
    };
    assert!(!advice(state.clone(), MIB).contains("backward()"));
    assert!(
        advice(state, 512).contains("call backward() in each round"),
        "a sum"
    );
    assert!(advice(outs, MIB).contains("call backward() in each round"));
}

#[test]
fn what_no_object_has_may_be_in_an_array_of_objects() {
    let mut of = with(Vec::new(), vec![kept(8 * GIB)]);
    let advice = |of: &Facts| texts(of).1;
    assert!(advice(&of).starts_with("find what keeps them: a NumPy array of objects"));
    assert!(!advice(&of).contains("autocast"));
    of.kept[0].lines[0].in_forward = true;
    assert!(advice(&of).contains("autocast"));
}

#[test]
fn a_round_without_a_backward_may_pass_its_graph_on() {
    let list = holder(HolderKind::Graph, "rewards[0]", MAIN, 8 * GIB);
    let mut of = with(vec![list], vec![kept(8 * GIB)]);
    (of.kept[0].is_growth, of.kept[0].of) = (false, 1);
    assert!(
        texts(&of)
            .1
            .starts_with("store .detach() of the tensor in rewards")
    );
    of.kept[0].with_backward = 0;
    assert!(
        texts(&of)
            .1
            .starts_with("evaluating: use torch.no_grad(); training")
    );
}

#[test]
fn a_tensor_and_what_is_computed_from_it_are_as_large_as_the_request() {
    let mut of = facts();
    of.parts[0].category = Category::Other;
    let line = Owner::Library("torch".into());
    of.alike = Some(crate::facts::Alike {
        bytes: 7 * GIB,
        figure: figure(14 * GIB, 2),
        lines: vec![
            (Owner::Unknown, figure(7 * GIB, 1)),
            (line, figure(7 * GIB, 1)),
        ],
    });
    assert_eq!(kind(&of), Kind::Alike);
    assert!(texts(&of).1.contains("change a tensor in place"));
    of.request.in_forward = true;
    assert_ne!(kind(&of), Kind::Alike, "a forward may keep both");
    of.request.in_forward = false;
    of.alike.as_mut().unwrap().lines.truncate(1);
    assert_ne!(kind(&of), Kind::Alike, "the line comes again");
}
