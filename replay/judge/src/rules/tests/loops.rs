//! Which loop's rounds are named, and what keeps them.

use super::held::{MAIN, holder, judged, with};
use super::keepers::texts;
use super::*;
use crate::holders::{Holder, HolderKind};

#[test]
fn rounds_that_wait_for_one_backward_are_those_of_the_outermost_loop() {
    let graph = holder(HolderKind::Graph, "meta_loss", MAIN, 8 * GIB);
    let inner = Kept {
        with_backward: 0,
        of: 83,
        rounds: 84,
        is_of_second_order: true,
        ..kept(8 * GIB)
    };
    let outer = Kept {
        of: 20,
        rounds: 21,
        ..inner.clone()
    };
    let mut of = with(vec![graph], vec![outer, inner]);
    assert_eq!(
        (judged(&of).0, judge(&of).of_loop),
        (Kind::Waiting, Some(0))
    );
    of.kept[1].is_of_second_order = false;
    assert_eq!(judge(&of).of_loop, Some(1));
}

#[test]
fn calls_of_a_forward_may_be_its_steps_in_time() {
    let graph = holder(HolderKind::Graph, "state[0]", MAIN, 8 * GIB);
    let inner = Kept {
        with_backward: 0,
        of: 200,
        rounds: 201,
        is_graph: true,
        is_one_call: true,
        ..kept(8 * GIB)
    };
    let outer = Kept {
        of: 8,
        rounds: 9,
        is_one_call: false,
        ..inner.clone()
    };
    let mut of = with(vec![graph], vec![outer, inner]);
    of.holders.as_mut().unwrap().all[0].also = Some("ys, local of Net.forward (m.py:16)".into());
    let (what, _) = texts(&of);
    assert!(what.starts_with("tensors of 8 earlier rounds"), "{what}");
    assert!(!what.contains("also by"), "{what}");
    of.kept[0].figure.bytes = 4 * GIB;
    assert_eq!(judge(&of).of_loop, Some(1), "less");
}

#[test]
fn rounds_with_and_without_a_backward_are_counted() {
    let list = holder(HolderKind::Graph, "history['residual'][0…5]", MAIN, 8 * GIB);
    let rounds = Kept {
        with_backward: 3,
        of: 6,
        rounds: 7,
        is_of_second_order: true,
        ..kept(8 * GIB)
    };
    let mut of = with(vec![list], vec![rounds]);
    let (what, advice) = texts(&of);
    assert!(
        what.starts_with("the graphs of 6 earlier rounds are still live, 3 of them without a backward: 8.00 GiB (57 % of live memory), "),
        "{what}"
    );
    assert!(
        advice.starts_with(
            "store .detach() in history['residual'], if no backward needs it; else make"
        ),
        "{advice}"
    );
    of.kept[0].with_backward = 0;
    let (what, advice) = texts(&of);
    assert!(what.starts_with("the graphs of 6 earlier rounds wait for a backward: 8.00 GiB (57 % of live memory), 1.33 GiB a round"), "{what}");
    assert!(
        advice.starts_with("make the graph span fewer rounds, "),
        "{advice}"
    );
}

#[test]
fn what_a_dictionary_has_in_small_blocks_is_a_sample() {
    let texts = ["rollout['value'][0…751]", "rollout[…][0…752]"];
    let all = texts.map(|text| holder(HolderKind::Graph, text, MAIN, 4 * GIB));
    let mut of = with(all.into(), vec![kept(8 * GIB)]);
    of.kept[0].with_backward = 0;
    of.kept[0].is_graph = true;
    of.kept[0].blocks[1].0 = 4;
    of.kept[0].blocks[2].0 = 5;
    assert_eq!(judged(&of), (Kind::NoBackward, Certainty::Proven, Some(0)));
    of.holders.as_mut().unwrap().all[1].text = "others[0…3]".into();
    assert_eq!(judged(&of).1, Certainty::Likely);
}

#[test]
fn a_longer_forward_than_all_before_is_named_beside_the_round_before() {
    let lp = Holder {
        blocks: 1,
        ..holder(HolderKind::Object, "lp", MAIN, 4 * GIB)
    };
    let mut of = with(vec![lp], vec![kept(4 * GIB)]);
    of.kept[0].is_growth = false;
    of.request.in_forward = true;
    (of.request.largest_before, of.request.allocations_before) = (Some(GIB / 2), 3);
    let (what, advice) = texts(&of);
    let says = "; 1.00 GiB is requested; the largest of its 3 allocations before was 512 MiB";
    assert!(what.contains(says), "{what}");
    assert!(
        advice.ends_with("; and limit the size of a batch, or its longest sequence"),
        "{advice}"
    );
    of.request.largest_before = Some(GIB);
    assert!(!texts(&of).0.contains("is requested"));
}

#[test]
fn a_variable_of_the_function_that_requests_may_be_needed() {
    let line = |function: &str| {
        Owner::Line(
            Line {
                file: "train.py".into(),
                relative: None,
                line: 3,
                function: function.into(),
            },
            None,
        )
    };
    let d2 = holder(HolderKind::Object, "d2", MAIN, 8 * GIB);
    let mut of = with(vec![d2], Vec::new());
    of.parts[0].category = Category::Other;
    of.largest = [1, 2, 3]
        .map(|address| crate::facts::Large {
            address,
            bytes: 2 * GIB,
            seq: gpumem_capture::Seq(address),
            part: 0,
            stack: gpumem_capture::StackId::NONE,
            running: crate::facts::Running::No,
            is_of_round: true,
        })
        .into();
    of.request.owner = line("other");
    assert!(
        texts(&of).1.contains("or del d2 before"),
        "{}",
        texts(&of).1
    );
    of.request.owner = line("main");
    let (_, advice) = texts(&of);
    assert!(
        advice.starts_with("allocate less at") && !advice.contains("del"),
        "{advice}"
    );
}

#[test]
fn float64_is_named_with_all_that_has_it() {
    let double = |kind, text, bytes| Holder {
        double: bytes,
        ..holder(kind, text, MAIN, bytes)
    };
    let graph = Holder {
        double: 6 * GIB,
        ..holder(HolderKind::Graph, "loss", MAIN, 9 * GIB)
    };
    let x = double(HolderKind::Object, "x", GIB);
    let net = double(HolderKind::Parameters, "net", GIB);
    let mut of = with(vec![graph, x, net], Vec::new());
    let advice = texts(&of).1;
    assert!(
        advice.starts_with("x and net are float64: .float() needs half"),
        "{advice}"
    );
    assert!(!advice.contains("autocast"), "{advice}");
    of.holders.as_mut().unwrap().all[0].double = 0;
    assert!(!texts(&of).1.contains("float64"), "a small part");
}

#[test]
fn a_copy_that_is_made_again_is_dropped_before() {
    let best = holder(HolderKind::Object, "best.net", MAIN, 4 * GIB);
    let round = Kept {
        is_growth: false,
        of: 1,
        ..kept(4 * GIB)
    };
    let mut of = with(vec![best], vec![round]);
    assert_eq!(judged(&of).0, Kind::PreviousRound);
    assert!(!texts(&of).1.contains("deepcopy"));
    of.request.in_copy = true;
    let advice = texts(&of).1;
    assert!(
        advice.starts_with("del best before copy.deepcopy() makes the next one"),
        "{advice}"
    );
}

#[test]
fn buffers_of_an_optimizer_wait_for_no_backward() {
    let buffers = holder(HolderKind::Graph, "opt.m[1…5]", MAIN, 8 * GIB);
    let gradients = holder(HolderKind::Graph, "gradients of net", MAIN, GIB);
    let rounds = Kept {
        with_backward: 0,
        of: 61,
        rounds: 62,
        is_of_second_order: true,
        ..kept(8 * GIB)
    };
    let mut of = with(vec![buffers, gradients], vec![rounds]);
    let (what, advice) = texts(&of);
    assert!(
        what.starts_with("the graphs of 61 earlier rounds are still live"),
        "{what}"
    );
    assert!(
        advice.starts_with(
            "backward(create_graph=True) makes gradients with graphs, which opt.m keeps"
        ),
        "{advice}"
    );
    // The weights of an inner loop, whose gradients have none.
    of.holders.as_mut().unwrap().all.truncate(1);
    assert!(texts(&of).0.contains("wait for a backward"));
}
