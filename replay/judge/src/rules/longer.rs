//! Rules about tensors that become larger each time.

use gpumem_replay::Figure;

use super::held::MUCH;
use super::{NOTABLE, notable, of_line};
use crate::facts::{Facts, Longer};
use crate::holders::{Holder, HolderKind};
use crate::verdict::{Kind, Verdict};

/// How many rises in a row show that what is computed grows with what is kept.
const WITH: u64 = 4;
/// The old and the new tensor.
const REPLACED: u64 = 2;
/// How many rises in a row show that what a forward computes grows.
const COMPUTED: u64 = 8;

/// A line whose tensor becomes larger each time, and what keeps it. What a forward computes from that tensor counts, too.
pub(super) fn lengthened(facts: &Facts) -> Option<Verdict> {
    let holders = facts.holders.as_ref();
    let of_program = |of: &Longer| {
        let mut all = holders.map_or_else(Vec::new, |all| all.of(&of.blocks));
        let holder = |at: &usize| facts.all_holders().get(*at);
        all.retain(|at| holder(at).is_some_and(|of| of.is_own));
        all
    };
    let is_of_graph = |of: &&Longer| is_of_graph(facts, of);
    let kept = facts.longer.iter().filter(|of| !is_of_graph(of));
    let kept = kept.max_by_key(|of| of.figure.bytes)?;
    // Two rises may be chance: the request is more than all that is live, or a call that runs has several tensors.
    let is_its = kept.owner == facts.request.owner.clone().whole();
    let is_next = is_its && kept.may_be_next(facts.request.bytes);
    let is_more = facts.request.bytes > facts.live && !is_next;
    // A variable of a call is new in each call.
    let is_new = kept.figure.blocks > REPLACED || !is_its;
    // What is added up has at least as many parts as there were rises.
    let parts = kept.rises.saturating_add(1);
    let each = kept.figure.bytes.checked_div(kept.figure.blocks)?;
    let is_uneven = kept.rise.1 / 3 > kept.rise.0 / 2 || each / parts < kept.rise.0 / 10 * 9;
    if kept.rises < WITH && (is_more || is_uneven || is_new && is_of_request(facts, kept)) {
        return None;
    }
    let others = together(facts, kept);
    let computed = facts.longer.iter().filter(is_of_graph);
    let computed = computed.filter(|of| kept.rises.min(of.rises) >= WITH);
    let also = others.iter().map(|of| of.figure);
    let figure: Figure = computed
        .map(|of| of.figure)
        .chain(also)
        .chain([kept.figure])
        .sum();
    let rose = kept.rise.0.midpoint(kept.rise.1).saturating_mul(kept.rises);
    let counts = notable(figure.bytes, facts.live, NOTABLE) && notable(rose, each, NOTABLE);
    counts.then(|| Verdict {
        holders: others.iter().fold(of_program(kept), |mut all, of| {
            let more = of_program(of).into_iter();
            let new: Vec<_> = more.filter(|at| !all.contains(at)).collect();
            all.extend(new);
            all
        }),
        ..of_line(Kind::Lengthened, figure, &kept.owner)
    })
}

/// Whether only variables of calls have what becomes larger each time, or no object of the program.
pub(super) fn is_of_call(facts: &Facts, longer: &Verdict) -> bool {
    let all = facts.all_holders();
    let mut holders = longer.holders.iter().filter_map(|at| all.get(*at));
    holders.all(|of| of.is_variable() && of.place.starts_with("local of "))
}

/// Whether variables of the function that made the request have a line's tensors.
fn is_of_request(facts: &Facts, of: &Longer) -> bool {
    let holders = facts.holders.as_ref();
    let holder = holders.and_then(|all| all.all.get(*all.of(&of.blocks).first()?));
    holder.is_some_and(|of| facts.is_of_request(of))
}

/// Whether a forward computes what a line allocates, or a graph keeps it. An attribute keeps what a forward puts there.
pub(crate) fn is_of_graph(facts: &Facts, of: &Longer) -> bool {
    let holders = facts.holders.as_ref();
    let holder = holders.and_then(|all| all.all.get(*all.of(&of.blocks).first()?));
    // A buffer of a module, too.
    let is_kept = |of: &Holder| {
        let is_object = of.kind == HolderKind::Object && of.is_in_attribute();
        of.is_own && (is_object || of.kind == HolderKind::Parameters)
    };
    of.is_computed && !holder.is_some_and(is_kept)
        || holder.is_some_and(|of| of.kind == HolderKind::Graph)
}

/// Other lines that grow with one, such as those of keys and values.
pub(crate) fn together<'a>(facts: &'a Facts, one: &Longer) -> Vec<&'a Longer> {
    let is_like = |of: &&Longer| {
        let is_same = (of.is_computed, of.rise) == (one.is_computed, one.rise);
        let may = one.is_computed || !is_of_graph(facts, of);
        is_same && may && of.owner != one.owner && one.rises.min(of.rises) >= WITH
    };
    facts.longer.iter().filter(is_like).collect()
}

/// Lines whose tensors a forward computes, and which become larger in each round: what they are computed from grows.
pub(super) fn computed_longer(facts: &Facts) -> Option<Verdict> {
    let all = facts
        .longer
        .iter()
        .filter(|of| of.is_computed && of.rises >= COMPUTED);
    let figure: Figure = all.clone().map(|of| of.figure).sum();
    let most = all.max_by_key(|of| of.figure.bytes)?;
    let each = most.figure.bytes.checked_div(most.figure.blocks)?;
    let rose = most.rise.0.midpoint(most.rise.1).saturating_mul(most.rises);
    let counts = notable(figure.bytes, facts.live, MUCH) && notable(rose, each, MUCH);
    counts.then(|| of_line(Kind::Lengthened, figure, &most.owner))
}
