//! Rules about what the search through the program's objects shows.

use gpumem_capture::Seq;
use gpumem_replay::attribution::{Line, Owner};
use gpumem_replay::names::Names;
use gpumem_replay::{Category, Figure};

use super::{GIB, facts, figure, in_small_blocks, kept};
use crate::facts::{Facts, Large, Longer, Part, Running};
use crate::holders::Holders;
use crate::rules::judge;
use crate::verdict::{Certainty, Kind};
use crate::words;

const LINE: u32 = 9;

fn owner(line: u32, function: &str) -> Owner {
    let line = Line {
        file: "/t.py".into(),
        relative: None,
        line,
        function: function.into(),
    };
    Owner::Line(line, None)
}

/// A failure in `function`, and a search that found one holder with 8 blocks of 1 GiB each, which line 9 allocated.
fn with_holder(function: &str, kind: &str, text: &str, place: &str) -> Facts {
    let mut of = facts();
    of.live = 9 * GIB;
    of.request.owner = owner(LINE + 1, function);
    of.parts = vec![Part {
        owner: owner(LINE, function),
        category: Category::None,
        figure: figure(8 * GIB, 8),
    }];
    let blocks: Vec<(u64, u64)> = (1..=8).map(|at| (at << 20, GIB)).collect();
    let each = blocks
        .iter()
        .map(|(address, _)| format!("block {address:x} 0\n"));
    let recorded = format!(
        "walk whole 1 1 1 1 {live} 1\nholder {kind} own {sum} 8 -\ntext {text}\nplace {place}\n{blocks}",
        live = of.live,
        sum = 8 * GIB,
        blocks = each.collect::<String>()
    );
    let mut names = Names::default();
    names.process.insert("holders.100".into(), recorded);
    of.holders = Holders::at(&names, Seq(100));
    of.largest = blocks
        .iter()
        .map(|(address, bytes)| Large {
            address: *address,
            bytes: *bytes,
            part: 0,
            seq: Seq(50),
            stack: Default::default(),
            is_of_round: false,
            running: Running::No,
        })
        .collect();
    let mut rounds = kept(8 * GIB);
    rounds.blocks = blocks;
    of.kept = vec![rounds];
    of
}

fn said(of: &Facts) -> (Kind, String) {
    let verdict = judge(of);
    let text = words::what(&Names::default(), of, &verdict);
    (verdict.kind, text)
}

#[test]
fn what_a_constructor_makes_is_one_object() {
    let place = "local of Cache.__init__ (t.py:10)";
    let (kind, text) = said(&with_holder(
        "Cache.__init__",
        "object",
        "self.k[0…7]",
        place,
    ));
    assert_eq!(kind, Kind::Held);
    assert!(
        text.starts_with("self.k[0…7], local of Cache.__init__ (t.py:10) keeps 8.00 GiB"),
        "{text}"
    );
}

#[test]
fn what_a_call_joins_is_needed() {
    let mut of = with_holder(
        "encode",
        "object",
        "parts[0…7]",
        "local of encode (t.py:10)",
    );
    assert_eq!(said(&of).0, Kind::KeptTensors, "a small request");
    of.request.bytes = 8 * GIB;
    let (kind, text) = said(&of);
    assert_eq!(kind, Kind::LargeRequest);
    assert!(
        text.contains(
            "requests 8.00 GiB at once, beside 9.00 GiB that are live, mostly parts[0…7]"
        ),
        "{text}"
    );
}

#[test]
fn what_a_checkpoint_computes_again_is_of_its_backward() {
    let text =
        "function → closure of _checkpoint_hook.__init__.pack_hook → frame.recomputed[0].data[…]";
    let mut of = with_holder("forward", "native", text, "native code or a running call");
    of.kept = Vec::new();
    of.parts[0].category = Category::Activation;
    assert_eq!(said(&of).0, Kind::Activations);
}

#[test]
fn parameters_that_no_forward_has_used_are_parameters() {
    let mut of = with_holder(
        "make",
        "parameters",
        "self",
        "local of NGP.__init__ (t.py:10)",
    );
    of.kept = Vec::new();
    // Not another model.
    of.request.in_forward = true;
    let (kind, text) = said(&of);
    assert_eq!(kind, Kind::Model);
    assert!(
        text.starts_with(
            "parameters and buffers: 8.00 GiB (89 % of live memory), mostly from /t.py:9"
        ),
        "{text}"
    );
}

#[test]
fn much_more_free_memory_than_a_list_has_is_the_cause() {
    let mut of = with_holder("main", "object", "keep[0…7]", "global of __main__");
    of.cache = in_small_blocks();
    assert_eq!(said(&of).0, Kind::KeptTensors);
    of.kept[0].figure = Figure {
        bytes: GIB,
        blocks: 1,
    };
    of.live = 2 * GIB;
    let (kind, _) = said(&of);
    assert_eq!(kind, Kind::Fragmentation);
}

#[test]
fn few_rises_of_any_size_are_no_growth() {
    let mut of = facts();
    of.parts[0].category = Category::None;
    let longer = |each: u64, rise: u64, rises: u64| Longer {
        owner: owner(LINE, "main"),
        figure: figure(each, 1),
        blocks: Vec::new(),
        rises,
        rise: (rise, rise),
        is_computed: false,
    };
    // Added up from the first part on, and inputs of other lengths.
    for (each, rise, rises, kind) in [
        (6 * GIB, 2 * GIB, 2, Kind::Lengthened),
        (4 * GIB, 2 * GIB, 2, Kind::Largest),
        (4 * GIB, GIB, 4, Kind::Lengthened),
    ] {
        of.longer = vec![longer(each, rise, rises)];
        let verdict = judge(&of);
        assert_eq!(
            (verdict.kind, verdict.certainty),
            (kind, Certainty::Follows),
            "{each} {rise}"
        );
    }
}
