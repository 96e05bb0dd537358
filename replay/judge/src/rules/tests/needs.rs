//! What a request, a step and an optimizer need.

use super::held::{MAIN, holder, judged, with};
use super::keepers::texts;
use super::*;
use crate::facts::{Large, New, Running};
use crate::holders::{Holder, HolderKind};

#[test]
fn a_request_as_large_as_all_of_a_list_is_a_copy_of_it() {
    let list = holder(HolderKind::Object, "parts[0…17]", MAIN, 8 * GIB);
    let mut of = with(vec![list], Vec::new());
    of.request.bytes = 8 * GIB;
    of.live = 8 * GIB;
    assert_eq!(kind(&of), Kind::LargeRequest);
    assert!(
        texts(&of)
            .1
            .starts_with("torch.cat() or torch.stack() of the 3 tensors in parts"),
        "{}",
        texts(&of).1
    );
    of.request.bytes = 9 * GIB;
    assert!(!texts(&of).1.contains("torch.cat"));
}

#[test]
fn expandable_segments_need_whole_pages_of_theirs() {
    let mut of = facts();
    (of.request.bytes, of.request.refused) = (32 * MIB, Some(32 * MIB));
    of.card.mine = 16 * GIB - 48 * MIB;
    assert_eq!(kind(&of), Kind::NotMemory);
    of.settings = Some("expandable_segments:True".into());
    assert_ne!(kind(&of), Kind::NotMemory, "they need two of 20 MiB");
}

#[test]
fn variables_of_threads_that_wait_come_before_fragmentation() {
    let calls = "local of 10 calls of worker (x.py:8)";
    let of = |place: &str, bytes| {
        let batch = Holder {
            blocks: 10,
            ..holder(HolderKind::Object, "batch", place, bytes)
        };
        let mut of = with(vec![batch], Vec::new());
        of.cache = in_small_blocks();
        judged(&of).0
    };
    assert_eq!(of(calls, 10 * GIB), Kind::Held);
    assert_eq!(of(calls, 8 * GIB), Kind::Fragmentation, "a part");
    assert_eq!(of(MAIN, 10 * GIB), Kind::Fragmentation);
}

/// A card of which free memory in PyTorch's cache is a quarter, and a request for the code of kernels.
fn code_of_kernels() -> Facts {
    let mut of = facts();
    (of.request.has_no_size, of.request.bytes) = (true, 0);
    (of.live, of.tensors, of.reserved) = (9 * GIB, 9 * GIB, 15 * GIB);
    of.parts[0].figure.bytes = 9 * GIB;
    let usable = Free {
        bytes: 6 * GIB,
        blocks: 9,
        largest: GIB,
        segments: 9,
        whole: 6 * GIB,
    };
    of.cache = Some(Cache {
        usable,
        reserved: 15 * GIB,
        ..Cache::default()
    });
    of
}

#[test]
fn what_the_next_step_needs_again_is_not_emptied() {
    let mut of = code_of_kernels();
    of.request.level = Level::PHYSICAL;
    of.peaks.now = 14 * GIB;
    assert_eq!(kind(&of), Kind::Cached);
    of.request.in_backward = true;
    assert_ne!(kind(&of), Kind::Cached, "it is the peak of each step");
    of.request.in_backward = false;
    (of.peaks.before, of.peaks.now, of.peaks.steps) = (11 * GIB, 9 * GIB, 1);
    assert_eq!(kind(&of), Kind::Cached);
    of.peaks.before = 12 * GIB;
    assert_ne!(kind(&of), Kind::Cached);
    of.tensors = 2 * GIB;
    let (what, advice) = texts(&of);
    assert!(
        what.contains("which the next steps need again: up to 12.0 GiB of tensors were live"),
        "{what}"
    );
    assert!(advice.starts_with("use a smaller batch"), "{advice}");
    (of.peaks.before, of.peaks.steps) = (0, 0);
    assert!(texts(&of).1.contains("empty_cache() before it"));
    of.peaks.forwards = 12 * GIB;
    assert!(
        texts(&of).1.starts_with("use a smaller batch"),
        "a forward needed it"
    );
}

#[test]
fn the_first_step_of_an_optimizer_makes_its_state() {
    let mut of = facts();
    of.steps = 0;
    of.parts[0].category = Category::Parameter;
    of.request.stacks.purpose = gpumem_replay::Purpose::new(ThreadPhase::Optimizer, false);
    let (what, advice) = texts(&of);
    assert!(
        what.starts_with("the first step of the optimizer makes its state, 0 B so far"),
        "{what}"
    );
    assert!(what.contains("the parameters, which are 14.0 GiB") && advice.contains("less state"));
    of.request.in_foreach = true;
    assert_eq!(kind(&of), Kind::Model);
}

#[test]
fn what_was_made_before_the_model_is_no_batch() {
    let mut of = facts();
    (of.request.in_forward, of.parts[0].category) = (true, Category::Other);
    let mut parameter = of.parts[0].clone();
    (parameter.category, parameter.figure.bytes) = (Category::Parameter, GIB);
    parameter.owner = Owner::Library("libtorch.so".into());
    of.parts.push(parameter);
    let block = |part, seq| Large {
        address: seq,
        bytes: GIB,
        seq: gpumem_capture::Seq(seq),
        part,
        stack: gpumem_capture::StackId::NONE,
        running: Running::No,
        is_of_round: true,
    };
    let last = of.parts.len() - 1;
    of.largest = vec![block(0, 1), block(last, 2)];
    let advice = texts(&of).1;
    assert!(advice.starts_with("keep on the host what"), "{advice}");
    of.largest = vec![block(0, 3), block(last, 2)];
    assert!(texts(&of).1.starts_with("use a smaller batch"));
}

#[test]
fn a_gradient_is_as_large_as_its_parameter() {
    let mut of = facts();
    (of.request.in_backward, of.request.bytes) = (true, 15 * GIB);
    of.parts[0].category = Category::Parameter;
    of.largest = vec![Large {
        address: 1,
        bytes: 15 * GIB,
        seq: gpumem_capture::Seq(1),
        part: 0,
        stack: gpumem_capture::StackId::NONE,
        running: Running::No,
        is_of_round: false,
    }];
    let (what, advice) = texts(&of);
    assert!(
        what.contains("for the gradient of a parameter of that size"),
        "{what}"
    );
    assert!(advice.starts_with("a smaller batch does not change it"));
}

#[test]
fn a_variable_without_which_the_request_would_have_fitted_is_a_cause() {
    let part = |text| Holder {
        frees: Some(2 * GIB),
        ..holder(HolderKind::Object, text, MAIN, 2 * GIB)
    };
    let checkpoint = vec![part("ckpt['model'][…]"), part("ckpt['best'][…]")];
    let mut of = with(checkpoint, Vec::new());
    of.request.bytes = 2 * GIB;
    assert_eq!(kind(&of), Kind::Held);
    assert!(texts(&of).1.starts_with("del ckpt when"));
    of.request.bytes = 6 * GIB;
    assert_eq!(kind(&of), Kind::Activations, "it is not enough");
}

#[test]
fn what_is_live_beside_a_large_request_has_a_name() {
    let dist = |text| vec![holder(HolderKind::Object, text, MAIN, 14 * GIB)];
    let mut of = with(dist("dist"), Vec::new());
    // A block is larger than its request by rounding.
    of.request.bytes = 14 * GIB - MIB;
    let (what, advice) = texts(&of);
    assert!(
        what.ends_with("beside 14.0 GiB that are live, mostly dist, local of main (train.py:3)"),
        "{what}"
    );
    let says = "request less at once: check the shape of the result, or compute";
    assert!(advice.starts_with(says), "{advice}");
    let mut trained = of.clone();
    trained.parts[0].category = Category::Parameter;
    assert!(texts(&trained).1.ends_with("or batch"), "of a model");
    of.holders.as_mut().unwrap().all = dist("self.obs");
    let advice = texts(&of).1;
    assert!(
        advice.ends_with("; or keep self.obs on the host with .cpu()"),
        "{advice}"
    );
}

#[test]
fn other_processes_without_which_it_would_fit_are_named_in_the_advice() {
    let mut of = facts();
    of.card.mine = 10 * GIB;
    (of.live, of.tensors, of.reserved) = (9 * GIB, 9 * GIB, 9 * GIB);
    of.card.reading = Some(Reading {
        others: Some(6 * GIB),
        ..reading()
    });
    let (what, advice) = texts(&of);
    assert!(
        what.ends_with("and without them the request would fit"),
        "{what}"
    );
    assert!(advice.ends_with("or use another GPU"), "{advice}");
    // What is free is in smaller blocks.
    of.reserved = 11 * GIB;
    assert!(texts(&of).0.ends_with("the request would fit"));
    of.card.mine = 15 * GIB;
    of.card.reading.as_mut().unwrap().others = Some(GIB);
    let (what, _) = texts(&of);
    assert!(what.ends_with("free, but in smaller blocks"), "{what}");
}

#[test]
fn what_earlier_rounds_did_not_keep_for_a_backward_may_need_none() {
    let mut of = facts();
    let new = |category| New {
        round: 6,
        figure: figure(9 * GIB, 3),
        lines: vec![(Owner::Unknown, category, figure(9 * GIB, 3))],
    };
    of.new = Some(new(Category::Activation));
    assert_eq!(kind(&of), Kind::New);
    let (what, advice) = texts(&of);
    assert!(
        what.contains("that the 4 rounds before did not make"),
        "{what}"
    );
    assert!(
        advice.contains("use torch.no_grad(); training: use a smaller batch"),
        "{advice}"
    );
    of.new = Some(new(Category::Input));
    assert_eq!(texts(&of).1, "");
}
