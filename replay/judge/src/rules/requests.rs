//! Rules about the size of the request, and about tensors that are new or of its size.

use gpumem_replay::{Category, Figure};

use super::{LEFT, NOTABLE, held, notable, of_line, verdict};
use crate::facts::{Facts, sums};
use crate::holders::{Holder, HolderKind};
use crate::verdict::{Certainty, Kind, Verdict};

/// The least percentage of live bytes that the first request of a line is, to be a cause.
const MOST: u64 = 48;
/// By how much a block may be larger than its request: one part of so many.
const ROUNDED: u64 = 64;
/// How much larger than the largest one before it a request of one line is.
const TIMES: u64 = 2;

/// A request that is much larger than any of its line before.
pub(super) fn large_request(facts: &Facts) -> Option<Verdict> {
    let request = &facts.request;
    if request.is_workspace && notable(request.bytes, facts.live, NOTABLE) {
        let of = Figure::block(request.bytes);
        return Some(of_line(Kind::Workspaces, of, &request.owner));
    }
    let lines = sums(facts.parts.iter().map(|part| (&part.owner, part.figure)));
    let line = lines.first().map_or(0, |(_, figure)| figure.bytes);
    let is_operand = |of: &Holder| {
        let is_list = of.kind == HolderKind::Object && of.is_own;
        is_list && notable(of.bytes, facts.live, NOTABLE) && held::is_operand(facts, of)
    };
    let is_large = match request.largest_before {
        _ if facts.all_holders().iter().any(is_operand) => true,
        Some(before) if request.allocations_before >= 3 => request.bytes / TIMES >= before,
        // As much as any line has.
        before => {
            // Each layer of a forward needs something.
            let least = if request.in_forward { 100 } else { MOST };
            let block = request.bytes.saturating_add(request.bytes / ROUNDED);
            let is_most =
                block >= line.min(facts.live) && notable(request.bytes, facts.live, least);
            let is_first = before < Some(request.bytes / TIMES);
            // Without tensors, contexts and kernel code may have the card.
            let is_alone = facts.live == 0 && request.bytes < facts.card.mine / TIMES;
            is_most && is_first && !is_alone
        }
    };
    let is_large = is_large && notable(request.bytes, facts.live, NOTABLE);
    is_large.then(|| Verdict {
        line: Some(request.owner.clone()),
        ..verdict(Kind::LargeRequest, Certainty::Follows, request.bytes)
    })
}

/// A tensor much larger than any of its line before: a batch that is larger than all others.
pub(super) fn larger(facts: &Facts) -> Option<Verdict> {
    let larger = facts.larger.as_ref()?;
    let of = Figure::block(larger.bytes);
    (larger.is_much() && notable(of.bytes, facts.live, LEFT))
        .then(|| of_line(Kind::LargeRequest, of, &larger.owner))
}

/// Lines that earlier rounds did not have.
pub(super) fn new(facts: &Facts) -> Option<Verdict> {
    let new = facts.new.as_ref()?;
    // What a checkpoint computes again is new in each backward.
    if facts.all_holders().iter().any(Holder::is_of_checkpoint) {
        return None;
    }
    let line = new.lines.first().map(|(owner, ..)| owner);
    notable(new.figure.bytes, facts.live, NOTABLE).then(|| of_line(Kind::New, new.figure, line))
}

/// Tensors of the request's size are most of the memory.
pub(super) fn alike(facts: &Facts) -> Option<Verdict> {
    let alike = facts.alike.as_ref()?;
    let parts = facts.parts.iter();
    let activations = parts.filter(|part| part.category == Category::Activation);
    let activations: u64 = activations.map(|part| part.figure.bytes).sum();
    // Of two, one is the result of the other, which no forward keeps.
    let request = &facts.request;
    let is_computed = alike.lines.len() > 1 && !request.in_forward && !request.in_backward;
    let counts = notable(alike.figure.bytes, facts.live, 60)
        && (alike.figure.blocks > 2 || is_computed)
        && alike.figure.blocks <= 8
        && !notable(activations, facts.live, 50);
    let line = alike.lines.first().map(|(owner, _)| owner);
    counts.then(|| of_line(Kind::Alike, alike.figure, line))
}
