//! Models: which one is too large, which ones are copies, and which are parts of one.

use gpumem_capture::{Seq, StackId};

use super::held::{MAIN, holder, with};
use super::keepers::texts;
use super::*;
use crate::facts::{Large, Part, Running};
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
    let mut one = of.clone();
    one.holders.as_mut().unwrap().all.truncate(1);
    assert!(!texts(&one).0.contains("threads"), "parts of one model");
    one.holders.as_mut().unwrap().all[0].text = "local[…]['m']".into();
    assert!(texts(&one).0.contains("6 threads made models"));
    assert!(
        what.contains("; 6 threads made models there, and most of these are live"),
        "{what}"
    );
    assert!(advice.starts_with("let these threads share a model"));
    one.holders.as_mut().unwrap().all.clear();
    let request = one.request.owner.clone();
    one.parts[0].owner = Owner::Library("lib.so".into());
    assert!(!texts(&one).0.contains("threads"), "of other lines");
    one.parts[0].owner = request;
    assert!(texts(&one).0.contains("6 threads made models"), "made now");
}

#[test]
fn models_that_are_collected_during_training_come_before_fragmentation() {
    let mut of = trained("clients[0…5].model");
    of.cache = in_small_blocks();
    assert_eq!(kind(&of), Kind::Fragmentation, "one optimizer");
    of.holders.as_mut().unwrap().all[2].text = "clients[0…5].opt.state[…]['exp_avg']".into();
    assert_eq!(kind(&of), Kind::Fragmentation, "no step has ended");
    of.peaks.first = Some(Seq(1));
    assert_eq!(kind(&of), Kind::Fragmentation, "all were made before");
    of.peaks.first = Some(Seq(0));
    let (what, advice) = texts(&of);
    assert!(
        what.starts_with("clients[0…5], local of main (train.py:3) keeps 12.0 GiB"),
        "{what}"
    );
    assert!(
        advice.starts_with("keep only the model in use on the card"),
        "{advice}"
    );
}

#[test]
fn a_copy_of_the_weights_is_named_beside_activations() {
    let by = |text: &str, number, category| {
        let object = Holder {
            blocks: number,
            ..holder(HolderKind::Object, text, MAIN, GIB)
        };
        let model = holder(HolderKind::Parameters, "model", MAIN, GIB);
        let mut of = with(vec![model, object], Vec::new());
        of.request.bytes = GIB / 2;
        let input = Part {
            category,
            figure: figure(GIB, 3),
            ..of.parts[0].clone()
        };
        of.largest = blocks(&[(9, of.parts.len())], false);
        of.parts.push(input);
        let holders = of.holders.as_mut().unwrap();
        holders.blocks = [(9, 1)].into_iter().collect();
        texts(&of)
    };
    let of = |text: &str, number| by(text, number, Category::Input);
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
    // The mean of earlier weights.
    let mean = by("ema.shadow[…]", 3, Category::Other);
    assert!(!mean.0.contains("as much as the weights"));
}
