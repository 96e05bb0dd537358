//! Advice that can be followed, and figures that belong to it.

use gpumem_replay::names::Names;

use super::*;
use crate::facts::Large;
use crate::holders::{Holder, HolderKind, Holders};
use crate::words;

const MAIN: &str = "local of main (train.py:3)";

/// One holder, which has three blocks of the first line.
fn held_by(kind: HolderKind, text: &str, place: &str) -> Option<Holders> {
    let holder = Holder {
        kind,
        is_own: true,
        text: text.into(),
        place: place.into(),
        bytes: 14 * GIB,
        blocks: 3,
        frees: None,
        covers: None,
        double: 0,
        unused: false,
        also: None,
    };
    Some(Holders {
        live: 14 * GIB,
        all: vec![holder],
        blocks: [(1, 0), (2, 0), (3, 0)].into_iter().collect(),
        ..Holders::default()
    })
}

fn what(of: &Facts) -> String {
    words::what(&Names::default(), of, &judge(of))
}

fn advice(of: &Facts) -> String {
    words::advice(&Names::default(), of, &judge(of)).unwrap_or_default()
}

fn models(categories: &[Category]) -> Kept {
    Kept {
        of_models: true,
        categories: categories.iter().copied().collect(),
        blocks: vec![(1, GIB), (2, GIB), (3, GIB)],
        ..kept(8 * GIB)
    }
}

#[test]
fn a_module_that_grows_is_no_earlier_model() {
    let mut of = facts();
    of.kept = vec![models(&[Category::Parameter])];
    of.holders = held_by(HolderKind::Parameters, "net", MAIN);
    let text = "net, local of main (train.py:3), grows by sub-modules, and those of 3 earlier rounds are still live: \
                8.00 GiB (57 % of live memory) of parameters, from";
    assert!(what(&of).starts_with(text), "{}", what(&of));
    assert!(!advice(&of).contains("optimizer") && advice(&of).contains("add less to net"));
    // A container of models, or a name that has only one of them.
    of.holders = held_by(HolderKind::Parameters, "folds[0…2].model", MAIN);
    assert!(what(&of).starts_with("models of 3 earlier rounds are still live"));
    assert!(advice(&of).starts_with("drop the earlier model"));
    of.holders = held_by(HolderKind::Parameters, "net", MAIN);
    of.kept[0].of = 1;
    assert!(what(&of).starts_with("models of "));
}

#[test]
fn what_is_live_of_models_is_named() {
    let mut of = facts();
    of.kept = vec![models(&[Category::Parameter])];
    assert!(what(&of).contains("(57 % of live memory) of parameters, from"));
    of.kept = vec![models(&[
        Category::OptimizerState,
        Category::Gradient,
        Category::Parameter,
    ])];
    assert!(what(&of).contains(" of parameters, gradients and optimizer state, from"));
}

#[test]
fn the_largest_line_names_who_keeps_it() {
    let mut of = facts();
    of.parts[0].category = Category::Input;
    let block = |address| Large {
        address,
        bytes: GIB,
        seq: gpumem_capture::Seq(1),
        part: 0,
        stack: gpumem_capture::StackId::NONE,
        running: crate::facts::Running::No,
        is_of_round: false,
    };
    of.largest = [1, 2, 3].map(block).into();
    (of.card.mine, of.request.in_forward) = (16 * GIB - GIB / 2, true);
    of.reserved = of.tensors;
    assert!(advice(&of).contains("free it earlier"));
    of.holders = held_by(HolderKind::Object, "adj", MAIN);
    assert!(what(&of).contains("; kept by adj, local of main (train.py:3)"));
    let bytes = std::mem::replace(&mut of.holders.as_mut().unwrap().all[0].bytes, 2 * GIB);
    assert!(what(&of).contains("; 2.00 GiB of it kept by adj, local of main (train.py:3)"));
    of.holders.as_mut().unwrap().all[0].bytes = bytes;
    let lacks = "or del adj before, if nothing uses it any more; the request lacks 512 MiB";
    assert!(advice(&of).ends_with(lacks), "{}", advice(&of));
    of.holders = held_by(HolderKind::Object, "roll.obs", MAIN);
    assert!(advice(&of).contains("or keep roll.obs on the host with .cpu()"));
    // NumPy's numbers are of double precision.
    of.holders = held_by(HolderKind::Object, "adj", MAIN);
    of.holders.as_mut().unwrap().all[0].double = 14 * GIB;
    assert!(what(&of).contains("; kept by adj (float64), local of main (train.py:3)"));
    let half = "adj is float64: .float() needs half, also in what is computed from it, if that is precise enough; or allocate less at";
    assert!(advice(&of).starts_with(half), "{}", advice(&of));
    // A variable of a forward that runs is in use.
    of.holders = held_by(
        HolderKind::Object,
        "scores",
        "local of Net.forward (net.py:3)",
    );
    assert!(advice(&of).starts_with("use a smaller batch"));
}

#[test]
fn room_outside_of_the_cache_has_figures() {
    let mut of = facts();
    (of.request.level, of.request.bytes, of.request.refused) = (Level::DRIVER, GIB, None);
    (of.live, of.tensors, of.reserved) = (8 * GIB, 8 * GIB, 15 * GIB);
    let cache = |whole| {
        Some(Cache {
            usable: Free {
                bytes: 7 * GIB,
                whole,
                ..Free::default()
            },
            reserved: 15 * GIB,
            ..Cache::default()
        })
    };
    of.cache = cache(4 * GIB);
    assert_eq!(kind(&of), Kind::Cached);
    assert_eq!(
        advice(&of),
        "call torch.cuda.empty_cache() before it, which frees 4.00 GiB, or leave it room: \
         torch.cuda.set_per_process_memory_fraction(0.87)"
    );
    of.cache = cache(0);
    assert!(advice(&of).starts_with("leave it room: "));
    of.request.bytes = 4 * GIB;
    (of.tensors, of.live) = (10 * GIB + GIB / 2, 10 * GIB + GIB / 2);
    assert_eq!(kind(&of), Kind::Cached);
    assert_eq!(advice(&of), "", "PyTorch needs all that is left");
}

#[test]
fn a_round_without_a_backward_is_an_evaluation() {
    let mut of = facts();
    of.kept = vec![Kept {
        is_growth: false,
        of: 1,
        with_backward: 0,
        ..kept(8 * GIB)
    }];
    assert_eq!(kind(&of), Kind::PreviousRound);
    assert!(advice(&of).starts_with("evaluating: use torch.no_grad()"));
    of.kept[0].with_backward = 1;
    assert!(advice(&of).starts_with("end a round with del"));
    // The last step of a training and the first of a validation may be one round.
    of.kept[0].is_graph = true;
    assert!(advice(&of).starts_with("evaluating: use torch.no_grad()"));
    of.kept[0].was_used = true;
    assert!(advice(&of).starts_with("end a round with del"));
    (of.kept[0].with_backward, of.kept[0].is_no_grad) = (0, true);
    assert!(!advice(&of).contains("no_grad"));
}

#[test]
fn a_step_that_needs_more_than_all_before_is_named() {
    let mut of = facts();
    of.peaks = StepPeaks {
        steps: 22,
        before: 5 * GIB,
        now: 14 * GIB,
        forwards: 14 * GIB,
        first: None,
    };
    let text = "; this step needs at least 15.0 GiB of tensors, and none of the 22 steps before needed more than 5.00 GiB";
    assert!(what(&of).contains(text), "{}", what(&of));
    assert!(advice(&of).starts_with("limit the size of the largest batch"));
    of.peaks.before = 13 * GIB;
    assert!(!what(&of).contains("this step"));
    assert!(advice(&of).starts_with("use a smaller batch"));
    (of.peaks.before, of.peaks.steps) = (GIB, 2);
    assert!(!what(&of).contains("this step"));
}
