//! What belongs together: attributes of one object, layers of one model; and what does not.

use super::held::{MAIN, holder, judged, with};
use super::keepers::texts;
use super::*;
use crate::facts::{Large, Running};
use crate::holders::{Holder, HolderKind};

/// A block of the first part.
fn large(address: u64, bytes: u64) -> Large {
    Large {
        address,
        bytes,
        seq: gpumem_capture::Seq(address),
        stack: gpumem_capture::StackId(1),
        part: 0,
        running: Running::No,
        is_of_round: false,
    }
}

#[test]
fn attributes_of_one_object_are_named_together() {
    let list = |text: &str, bytes| holder(HolderKind::Object, text, MAIN, bytes);
    let of = with(
        vec![
            list("metric.scores[0…189]", 5 * GIB),
            list("metric.labels[0…189]", 4 * GIB),
            list("metric.names[0…3]", GIB),
        ],
        Vec::new(),
    );
    let (what, advice) = texts(&of);
    assert!(
        what.starts_with("metric.scores[0…189] and metric.labels[0…189], local of main (train.py:3) keep 9.00 GiB"),
        "{what}"
    );
    assert!(
        advice.starts_with("keep fewer tensors in metric.scores and metric.labels, or keep"),
        "{advice}"
    );
    // Of other objects, each has its own.
    let of = with(
        vec![
            list("a.scores[0…9]", 6 * GIB),
            list("b.labels[0…9]", 5 * GIB),
        ],
        Vec::new(),
    );
    assert!(texts(&of).0.starts_with("a.scores[0…9], local of main"));
}

#[test]
fn cached_properties_of_the_same_objects_are_named_together() {
    let cached = |name: &str| {
        let text = format!("all[0…9].{name}, cached property");
        holder(HolderKind::Object, &text, MAIN, 4 * GIB)
    };
    let of = with(vec![cached("volume"), cached("map")], vec![kept(8 * GIB)]);
    let (what, advice) = texts(&of);
    assert!(what.contains("kept by all[0…9], local of main"), "{what}");
    assert!(advice.starts_with("del .volume and .map when"), "{advice}");
}

#[test]
fn the_layers_of_a_model_that_is_made_are_no_list_of_the_program() {
    let list = |function: &str| {
        let place = format!("native code or {function} (net.py:5)");
        holder(HolderKind::Native, "list[0…34]", &place, 9 * GIB)
    };
    let of = |holders, category| {
        let mut of = with(holders, Vec::new());
        of.parts[0].category = category;
        of.largest = (1..4).map(|at| large(at, 3 * GIB)).collect();
        judge(&of).kind
    };
    let layers = |function: &str| vec![list(function)];
    assert_eq!(of(layers("Net.__init__"), Category::Parameter), Kind::Model);
    assert_eq!(
        of(layers("Net.__init__.<listcomp>"), Category::Parameter),
        Kind::Model
    );
    assert_eq!(of(layers("load"), Category::Parameter), Kind::Held);
    let file = |name: &str| Holder {
        place: format!("native code or load ({name}:40)"),
        ..list("load")
    };
    assert_eq!(
        of(vec![file("__init__.py")], Category::Parameter),
        Kind::Held
    );
    assert_eq!(of(layers("Data.__init__"), Category::Input), Kind::Held);
    let earlier = holder(HolderKind::Parameters, "model", MAIN, 2 * GIB);
    assert_eq!(
        of(vec![list("load"), earlier], Category::Parameter),
        Kind::Model
    );
}

#[test]
fn a_list_of_a_running_call_keeps_graphs() {
    let place = "native code or predict (eval.py:16)";
    let graph = |text: &str| Holder {
        is_own: false,
        ..holder(HolderKind::Graph, text, place, 8 * GIB)
    };
    let what = |text: &str, with_backward| {
        let kept = Kept {
            with_backward,
            was_used: with_backward > 0,
            ..kept(8 * GIB)
        };
        texts(&with(vec![graph(text)], vec![kept])).0
    };
    let list = what("list[0…10]", 0);
    assert!(
        list.ends_with("; kept by a list that predict (eval.py:16) builds"),
        "{list}"
    );
    let arguments = what("tuple[0…10]", 0);
    assert!(
        arguments.ends_with("; kept by a tuple that predict (eval.py:16) works with"),
        "{arguments}"
    );
    assert!(!what("list[0…10]", 3).contains("kept by"));
}

#[test]
fn a_buffer_that_grows_comes_before_the_round_that_left_it() {
    let net = || holder(HolderKind::Parameters, "net", MAIN, 8 * GIB);
    let round = Kept {
        is_growth: false,
        of: 1,
        ..kept(8 * GIB)
    };
    let mut of = with(vec![net()], vec![round]);
    let (kind, (_, advice)) = (judge(&of).kind, texts(&of));
    assert_eq!(kind, Kind::PreviousRound);
    assert!(
        advice.starts_with("let net keep less from round to round"),
        "{advice}"
    );
    let bank = |bytes| crate::facts::Longer {
        owner: Owner::Unknown,
        figure: figure(bytes, 1),
        blocks: vec![(1, bytes)],
        rises: 97,
        rise: (bytes / 97, bytes / 97),
        is_computed: false,
    };
    of.longer = vec![bank(8 * GIB - GIB / 2)];
    assert_eq!(judge(&of).kind, Kind::Lengthened);
    of.longer = vec![bank(6 * GIB)];
    assert_eq!(judge(&of).kind, Kind::PreviousRound);
}

#[test]
fn a_model_with_gradients_and_without_optimizer_state_may_not_be_trained() {
    let own = |kind, text: &str, bytes| holder(kind, text, MAIN, bytes);
    let of = |teacher, gradients| {
        let of = with(
            vec![
                own(HolderKind::Parameters, "teacher", teacher),
                own(HolderKind::Gradients, "teacher", gradients),
                own(HolderKind::Parameters, "student", GIB),
                own(HolderKind::Object, "opt.state[…]['exp_avg']", GIB),
                own(HolderKind::Object, "opt.state[…]['exp_avg_sq']", GIB),
            ],
            Vec::new(),
        );
        assert_eq!(judge(&of).kind, Kind::Activations);
        texts(&of).1
    };
    let whole = of(3 * GIB, 3 * GIB);
    assert!(
        whole.starts_with("if teacher, which has gradients and no optimizer state, is not"),
        "{whole}"
    );
    // It may be the smaller one that has none.
    assert!(!of(2 * GIB, 2 * GIB).contains("teacher"));
    // Buffers have no state.
    let model = own(HolderKind::Parameters, "model", GIB + 20 * MIB);
    let its = own(HolderKind::Gradients, "model", GIB);
    let momentum = own(HolderKind::Object, "opt.state[…]['momentum_buffer']", GIB);
    let one = texts(&with(vec![model, its, momentum], Vec::new())).1;
    assert!(!one.contains("is not trained"), "{one}");
    // It may be frozen, and a gradient goes through it.
    assert!(!of(3 * GIB, MIB).contains("teacher"));
}

#[test]
fn copies_of_an_optimizers_state_are_no_optimizers() {
    let text = "points[0…21].state['state'][0…39]['exp_avg']";
    let of = with(
        vec![holder(HolderKind::Object, text, MAIN, 8 * GIB)],
        vec![kept(8 * GIB)],
    );
    assert_eq!(judged(&of).0, Kind::KeptTensors);
    let advice = texts(&of).1;
    assert!(
        advice.starts_with("drop the references to them"),
        "{advice}"
    );
}

/// Variables of one block each.
fn variables(all: &[(&str, u64)], request: u64) -> Facts {
    let variable = |(text, bytes): &(&str, u64)| Holder {
        blocks: 1,
        ..holder(
            HolderKind::Object,
            text,
            "global of __main__",
            bytes.next_multiple_of(512),
        )
    };
    let mut of = with(all.iter().map(variable).collect(), Vec::new());
    (of.live, of.request.bytes) = (1 << 20, request);
    of
}

#[test]
fn vectors_that_may_be_broadcast_are_named() {
    let advice = |bytes: u64| texts(&variables(&[("pred", 60_000), ("y", 60_000)], bytes)).1;
    let both = advice(15_000 * 15_000 * 4);
    assert!(
        both.starts_with("check the shapes of pred and y: if they are (N, 1) and (N,)"),
        "{both}"
    );
    assert!(!advice(15_000 * 14_000 * 4).contains("pred"));
    let also = variables(
        &[("x", 240_000), ("pred", 60_000), ("y", 60_000)],
        15_000 * 15_000 * 4,
    );
    assert!(
        texts(&also).1.starts_with("check the shapes of pred and y"),
        "before rows"
    );
    // Powers of two fit by chance.
    let chance = variables(&[("x", 262_144), ("y", 262_144)], 16 * GIB);
    assert!(!texts(&chance).1.contains(" x "));
}

#[test]
fn a_result_for_each_row_with_each_row_is_named() {
    let rows = |rows: u64| rows * 128 * 4;
    let both = [("queries", rows(60_001)), ("bank", rows(100_003))];
    let advice = |bytes| texts(&variables(&both, bytes)).1;
    let whole = 60_001 * 100_003 * 4;
    assert!(
        advice(whole).starts_with("request less at once: if it is a result for each row of queries with each row of bank, as"),
        "{}",
        advice(whole)
    );
    assert!(!advice(60_001 * 100_000 * 4).contains("each row"));
    let mut of = variables(&both, whole);
    of.request.in_forward = true;
    assert!(
        !texts(&of).1.contains("each row"),
        "attention scores may fit by chance"
    );
}

#[test]
fn an_old_value_that_nothing_reads_is_deleted() {
    let chunk = |unused| Holder {
        blocks: 1,
        unused,
        ..holder(HolderKind::Object, "chunk", MAIN, 8 * GIB)
    };
    let advice = |unused| {
        let mut of = with(vec![chunk(unused)], Vec::new());
        (of.live, of.request.bytes) = (8 * GIB, 8 * GIB - 7 * MIB);
        assert_eq!(judge(&of).kind, Kind::LargeRequest);
        texts(&of).1
    };
    assert!(advice(true).starts_with("del chunk before the call in main (train.py:3), after"));
    assert!(!advice(false).contains("del "));
}

#[test]
fn what_the_driver_reserves_is_not_taken_from_the_card_twice() {
    let mut of = facts();
    of.card.mine = 14 * GIB;
    let read = |used, total| Reading {
        seq: gpumem_capture::Seq(1),
        time: gpumem_capture::Nanos(1),
        process: Some(14 * GIB),
        others: Some(0),
        physical: 14 * GIB,
        managed: 0,
        estimated: false,
        card: Some(gpumem_replay::Card {
            used,
            reserved: Some(GIB),
            total,
        }),
    };
    of.card.reading = Some(read(15 * GIB, 17 * GIB));
    assert_eq!(of.card.free(), Some(2 * GIB), "CUDA's size is 16 GiB");
    of.card.mine = 15 * GIB;
    assert_eq!(of.card.free(), Some(GIB), "since the reading");
    // Something has memory of which no process is known.
    of.card.reading = Some(read(15 * GIB + GIB / 2, 17 * GIB));
    assert_eq!(of.card.free(), Some(GIB / 2));
    of.card.reading = Some(read(15 * GIB + GIB / 2, 16 * GIB));
    assert_eq!(of.card.free(), Some(GIB / 2), "of a saved replay");
}
