//! Models: which one is too large, which ones are copies, and which are parts of one.

use gpumem_capture::{Seq, StackId};

use super::held::{MAIN, holder, judged, with};
use super::keepers::texts;
use super::*;
use crate::facts::{Large, Running};
use crate::holders::{Holder, HolderKind};

/// Blocks with their address and part, the address is also the event.
fn blocks(all: &[(u64, usize)], is_of_round: bool) -> Vec<Large> {
    let block = |(address, part): &(u64, usize)| Large {
        address: *address,
        bytes: 4 * GIB,
        seq: Seq(*address),
        part: *part,
        stack: StackId(7),
        running: Running::No,
        is_of_round,
    };
    all.iter().map(block).collect()
}

fn in_step(of: &mut Facts) {
    of.request.stacks.purpose = gpumem_replay::Purpose::new(ThreadPhase::Optimizer, false);
}

/// Parameters of a model, their gradients and a part of the optimizer's state, in this order.
fn trained(text: &str) -> Facts {
    let kinds = [
        HolderKind::Parameters,
        HolderKind::Gradients,
        HolderKind::Object,
    ];
    let texts = [text, text, "opt.state[…]['exp_avg']"];
    let all = kinds.iter().zip(texts);
    let all = all.map(|(kind, text)| holder(*kind, text, MAIN, 4 * GIB));
    let mut of = with(all.collect(), Vec::new());
    let categories = [
        Category::Parameter,
        Category::Gradient,
        Category::OptimizerState,
    ];
    of.parts = categories
        .map(|category| Part {
            owner: Owner::Unknown,
            category,
            figure: figure(4 * GIB, 3),
        })
        .into();
    of.largest = blocks(&[(1, 0), (2, 1), (3, 2)], true);
    if let Some(holders) = &mut of.holders {
        holders.blocks = [(1, 0), (2, 1), (3, 2)].into_iter().collect();
    }
    of
}

#[test]
fn the_first_step_of_a_later_model_makes_its_state() {
    let mut of = trained("model");
    in_step(&mut of);
    of.larger = Some(Larger {
        owner: Owner::Unknown,
        bytes: 4 * GIB,
        before: GIB,
        allocations: 49,
    });
    assert_eq!(kind(&of), Kind::LargeRequest, "the model may be old");
    of.peaks.first = Some(Seq(0));
    let (what, advice) = texts(&of);
    assert!(
        what.starts_with("the first step of the optimizer makes its state, 4.00 GiB so far"),
        "{what}"
    );
    assert!(advice.ends_with("or use a smaller model"), "{advice}");
    of.peaks.first = Some(Seq(2));
    assert_eq!(kind(&of), Kind::LargeRequest, "it had steps");
    of.peaks.first = Some(Seq(0));
    of.largest[2].seq = Seq(1);
    assert_eq!(kind(&of), Kind::LargeRequest, "the state is whole");
}

#[test]
fn layers_in_a_list_are_one_model() {
    let mut of = trained("layers[0…4]");
    assert_ne!(kind(&of), Kind::Held);
    of.largest[1].is_of_round = false;
    assert_eq!(kind(&of), Kind::Held, "gradients of an earlier round");
    of.largest[1].is_of_round = true;
    let state = "opts[0…4].state[…]['exp_avg']";
    of.holders.as_mut().unwrap().all[2].text = state.into();
    assert_eq!(kind(&of), Kind::Held, "an optimizer for each");
}

#[test]
fn a_step_of_a_later_model_is_no_larger_batch() {
    let mut of = trained("model");
    of.parts[0].category = Category::Activation;
    of.parts[0].figure = figure(6 * GIB, 30);
    of.peaks = StepPeaks {
        steps: 22,
        before: 5 * GIB,
        now: 14 * GIB,
        first: Some(Seq(0)),
    };
    let (what, advice) = texts(&of);
    assert!(
        what.contains("; the model was made after the first of them"),
        "{what}"
    );
    assert!(advice.starts_with("use a smaller model"), "{advice}");
    of.live = 100 * GIB;
    assert!(!texts(&of).0.contains("the model was"), "a small model");
    of.live = 14 * GIB;
    of.peaks.first = Some(Seq(2));
    assert!(texts(&of).1.starts_with("limit the size of the largest"));
}

#[test]
fn models_of_threads_replace_none() {
    let all = ["workers[0…2].model", "_.model"];
    let all = all.map(|text| holder(HolderKind::Parameters, text, MAIN, 4 * GIB));
    let mut of = with(all.into(), Vec::new());
    of.parts[0].category = Category::Parameter;
    of.largest = blocks(&[(1, 0)], false);
    of.holders.as_mut().unwrap().blocks = [(1, 1)].into_iter().collect();
    (of.request.seq, of.request.stacks.py) = (Seq(100), StackId(7));
    assert_eq!(kind(&of), Kind::Held);
    of.request.threads = 6;
    let (what, advice) = texts(&of);
    assert!(
        what.contains("; 6 threads make models there, and keep them"),
        "{what}"
    );
    assert!(advice.starts_with("let these threads share a model"));
}

#[test]
fn a_dictionary_of_models_has_several() {
    let of = |text| {
        let models = holder(HolderKind::Parameters, text, MAIN, 12 * GIB);
        let mut of = with(vec![models], Vec::new());
        of.parts[0].category = Category::Parameter;
        of.trains = false;
        of
    };
    let models = of("models[…]");
    assert_eq!(judged(&models), (Kind::Model, Certainty::Proven, Some(0)));
    assert!(
        texts(&models)
            .1
            .starts_with("keep fewer of the models in models on the card")
    );
    assert_eq!(judged(&of("layers[0…3]")).2, None, "parts of one model");
    let mut trained = models;
    trained.trains = true;
    assert_eq!(judged(&trained).2, None, "perhaps parts of one model");
}

#[test]
fn a_copy_of_the_weights_is_named_beside_activations() {
    let of = |text: &str, blocks| {
        let object = Holder {
            blocks,
            ..holder(HolderKind::Object, text, MAIN, GIB)
        };
        let model = holder(HolderKind::Parameters, "model", MAIN, GIB);
        let mut of = with(vec![model, object], Vec::new());
        of.request.bytes = GIB / 2;
        texts(&of)
    };
    let (what, advice) = of("ckpt['model'][…]", 3);
    let says = "; ckpt['model'][…], local of main (train.py:3) has as much as the weights of a model: 1.00 GiB";
    assert!(what.contains(says), "{what}");
    assert!(advice.starts_with("del ckpt['model'] when"), "{advice}");
    assert!(advice.contains("; or use a smaller batch"), "{advice}");
    for (text, blocks) in [
        ("ckpt['model'][…]", 4),
        ("x", 3),
        ("opt.state[…]['exp_avg']", 3),
    ] {
        assert!(!of(text, blocks).0.contains("as much as the weights"));
    }
}
