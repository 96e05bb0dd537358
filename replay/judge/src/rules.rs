//! The rules, in the order in which they are checked: what is independent of the program's own tensors, what earlier
//! rounds hold, free memory that the request cannot use, and the largest part.

mod held;
mod longer;
mod models;
mod requests;
mod unusable;

pub(crate) use held::is_without_object;
pub(crate) use longer::{is_of_graph, together};
pub(crate) use models::{is_of_later_model, makes_state};
pub(crate) use unusable::is_needed_again;
use unusable::unusable;

use gpumem_capture::Level;
use gpumem_replay::attribution::Owner;
use gpumem_replay::{Category, Figure};

use crate::facts::{Facts, sums, whole_pages};
use crate::kept::Kept;
use crate::verdict::{Certainty, Kind, Verdict};

/// The least percentage of live bytes that is a cause.
pub(crate) const NOTABLE: u64 = 25;
/// The least percentage of live bytes that grew, where the same request succeeded before.
pub(crate) const GREW: u64 = 4;
/// The least percentage of live bytes that a container has of a round that has ended.
pub(crate) const LEFT: u64 = 10;
/// The least percentage of what a round left that is the same as what becomes larger.
const MOSTLY: u64 = 90;
/// Free memory may be less than the newest reading and the calls since then show, by pages that the driver takes for itself.
const UNSURE: u64 = 16 << 20;
/// How much more free memory than growth is the cause.
const MUCH_MORE: u64 = 3;
/// How many blocks are too few to be what a forward keeps on its way.
const FEW: u64 = 2;

pub(crate) fn notable(part: u64, of: u64, percent: u64) -> bool {
    part > 0 && u128::from(part) * 100 >= u128::from(of) * u128::from(percent)
}

/// The cause of a failure: the first rule that holds.
pub fn judge(facts: &Facts) -> Verdict {
    let rules = [
        of_the_system,
        outside,
        held::leftover,
        earlier_rounds,
        models::earlier_optimizers,
        models::replaced,
        held::by_calls,
        models::finished,
        models::collected,
        models::later_state,
        unusable,
        requests::large_request,
        requests::larger,
        held::by_one_object,
        requests::new,
        longer::computed_longer,
        requests::alike,
        models::earlier_model,
        largest,
    ];
    let found = rules.iter().find_map(|rule| rule(facts));
    let found =
        found.unwrap_or_else(|| verdict(Kind::Unknown, Certainty::Likely, facts.request.bytes));
    let is_earlier = facts.holders.as_ref().is_some_and(|of| of.is_earlier);
    match found.certainty {
        Certainty::Proven if is_earlier && !found.holders.is_empty() => Verdict {
            certainty: Certainty::Likely,
            ..found
        },
        _ => found,
    }
}

fn verdict(kind: Kind, certainty: Certainty, bytes: u64) -> Verdict {
    Verdict {
        kind,
        certainty,
        bytes,
        blocks: 0,
        holders: Vec::new(),
        line: None,
        of_loop: None,
    }
}

/// A verdict about blocks of a line, which follows from the events.
fn of_line<'a>(kind: Kind, of: Figure, line: impl Into<Option<&'a Owner>>) -> Verdict {
    Verdict {
        blocks: of.blocks,
        line: line.into().cloned(),
        ..verdict(kind, Certainty::Follows, of.bytes)
    }
}

/// Free memory on the card and in the part of the pool that the request can use.
pub(crate) fn usable(facts: &Facts) -> Option<u64> {
    let cached = match &facts.cache {
        _ if facts.request.level != Level::TENSOR => 0,
        Some(cache) => cache.usable.bytes,
        None => facts.reserved.saturating_sub(facts.tensors),
    };
    Some(facts.card.free()?.saturating_add(cached))
}

fn of_the_system(facts: &Facts) -> Option<Verdict> {
    let follows = |kind, bytes| Some(verdict(kind, Certainty::Follows, bytes));
    let request = &facts.request;
    if request.level == Level::HOST {
        return follows(Kind::Host, request.bytes);
    }
    if facts.card.total.is_some_and(|total| request.bytes > total) {
        return follows(Kind::TooLarge, request.bytes);
    }
    // A context needs little: what this process does not have is not free either.
    let is_context = request.has_no_size && request.was_refused;
    let is_read = facts.card.reading.is_some_and(|of| of.others.is_some());
    if let Some(total) = facts.card.total.filter(|_| is_context && !is_read)
        && facts.card.mine < total / 2
    {
        let others = total - facts.card.mine;
        return Some(verdict(Kind::OtherProcesses, Certainty::Likely, others));
    }
    let (free, need) = (facts.card.free()?, facts.needed());
    let others = facts.card.others();
    // The framework has released all of its cache that it can, so a block of what is left must be large enough.
    let has_block = facts.cache.as_ref().is_some_and(|cache| {
        request.level == Level::TENSOR && cache.usable.largest >= request.bytes
    });
    let would_fit = free >= need || has_block;
    let without_them = free.saturating_add(others) >= need;
    if !would_fit && without_them && others >= facts.card.mine {
        return follows(Kind::OtherProcesses, others);
    }
    let refused = match request.level {
        Level::PHYSICAL => 0,
        _ => request.refused.unwrap_or(0),
    };
    let least = need.max(whole_pages(request.bytes.max(refused)));
    if request.was_refused && free >= least.saturating_add(UNSURE) {
        return follows(Kind::NotMemory, free);
    }
    None
}

/// Memory outside of the framework that is a larger part than its tensors.
fn outside(facts: &Facts) -> Option<Verdict> {
    if facts.level != Level::TENSOR {
        return None;
    }
    let most = facts.outside.first()?;
    let figure = Figure {
        bytes: facts.outside.iter().map(|of| of.figure.bytes).sum(),
        blocks: most.figure.blocks,
    };
    let counts = figure.bytes >= facts.tensors.max(1 << 20)
        && notable(figure.bytes, facts.card.mine, NOTABLE);
    counts.then(|| of_line(Kind::OtherLibrary, figure, &most.owner))
}

fn earlier_rounds(facts: &Facts) -> Option<Verdict> {
    let longer = longer::lengthened(facts);
    let at = strongest(facts);
    let kept = at.map(|at| &facts.kept[at]);
    if let Some(longer) = longer
        && kept.is_none_or(|kept| {
            // It is in the round before, too.
            let most = kept.figure.bytes - u64::from(!kept.is_growth).min(kept.figure.bytes);
            let is_it = kept.of + 1 < kept.rounds && most == longer.bytes;
            // What one round left may be that, and a little more.
            let is_most_of_it = !kept.is_growth && notable(longer.bytes, most, MOSTLY);
            most < longer.bytes || is_it || is_most_of_it
        })
        && !(longer::is_of_call(facts, &longer) && is_more_fragmented(facts, longer.bytes))
    {
        return Some(longer);
    }
    let (at, kept) = (at?, kept?);
    // Free memory that would do is more, or a store of a fixed length does not grow. What a container has of each round
    // grows until it is too much.
    let grows = kept.is_growth && held::is_in_container(facts, kept);
    let is_less = |of: Verdict| {
        let is_most = of.bytes / MUCH_MORE > kept.figure.bytes;
        let grows = grows && of.kind == Kind::Fragmentation && !is_most;
        kept.is_window || !grows && kept.figure.bytes < of.bytes
    };
    if unusable(facts).is_some_and(is_less) {
        return None;
    }
    let (kind, certainty) = kind_of(facts, kept);
    let last = kept.last.as_ref().filter(|_| kind == Kind::KeptGraphs);
    let line = last.or(kept.lines.first()).map(|line| &line.owner);
    let verdict = Verdict {
        certainty,
        of_loop: Some(at),
        ..of_line(kind, kept.figure, line)
    };
    Some(held::of_rounds(facts, kept, verdict))
}

/// Whether more memory than this is free in blocks that are too small.
fn is_more_fragmented(facts: &Facts, bytes: u64) -> bool {
    let is_more = |of: Verdict| of.kind == Kind::Fragmentation && of.bytes > bytes;
    !facts.request.is_workspace && unusable(facts).is_some_and(is_more)
}

/// What the request lacks.
pub(crate) fn missing(facts: &Facts) -> u64 {
    usable(facts).map_or(0, |usable| facts.needed().saturating_sub(usable))
}

/// Whether a request like this one succeeded before: of the same stack, and at least as large.
fn succeeded_before(facts: &Facts) -> bool {
    let before = facts.request.largest_before;
    before.is_some_and(|before| facts.request.bytes > 0 && before >= facts.request.bytes)
}

/// The innermost loop whose earlier rounds hold nearly as much as any. Growth comes before what one round left.
///
/// If the same request succeeded before, what grew since is the cause, also where it is a small part: without it, the
/// request would have succeeded again.
fn strongest(facts: &Facts) -> Option<usize> {
    let missing = missing(facts);
    let again = succeeded_before(facts);
    let least = missing.max(facts.request.bytes / 2).max(1);
    let is_cause = |kept: &Kept| {
        let would_do = again && kept.is_growth && kept.figure.bytes >= least;
        // What a container has of a round that has ended, and without which the request would have fitted.
        let in_container = kept.figure.bytes >= least && held::is_in_container(facts, kept);
        notable(kept.figure.bytes, facts.live, NOTABLE)
            || (would_do && notable(kept.figure.bytes, facts.live, GREW))
            || (in_container && notable(kept.figure.bytes, facts.live, LEFT))
    };
    let is_bound_again = |kept: &Kept| {
        let is_named = kept.figure.bytes >= least && held::is_in_variable(facts, kept);
        kept.is_until_request && !is_named && !held::is_in_container(facts, kept)
    };
    // A backward that runs uses the graph of these rounds, unless it makes one itself: with gradients on.
    let is_no_grad = facts.request.stacks.purpose.is_no_grad();
    let is_in_use = |kept: &Kept| {
        let makes_graph = kept.is_of_second_order && !is_no_grad;
        facts.request.in_backward && !makes_graph && kept.with_backward == 0 && !kept.of_models
    };
    let large = |kept: &Kept| {
        let may = !kept.is_reset && !is_in_use(kept) && !is_bound_again(kept);
        may && is_cause(kept)
            && (kept.of_models || !held::is_being_built(facts, kept))
            && !held::is_of_one_call(facts, kept)
    };
    let grows = |kept: &Kept| kept.is_growth || kept.of_models;
    let is_growth = facts.kept.iter().any(|kept| large(kept) && grows(kept));
    let counts = |kept: &Kept| large(kept) && grows(kept) == is_growth;
    let most = facts.kept.iter().filter(|kept| counts(kept));
    let most = most.map(|kept| kept.figure.bytes).max()?;
    let near = |kept: &&Kept| counts(kept) && notable(kept.figure.bytes, most, 80);
    // Where a backward ends each round, the rounds of a loop within, such as one over time, are parts of those.
    let is_trained = |kept: &Kept| kept.is_graph && 2 * kept.with_backward > kept.of;
    let mut innermost = facts.kept.iter().rposition(|kept| near(&kept))?;
    let of = &facts.kept[innermost];
    if of.is_of_second_order && !is_trained(of) && 2 * of.with_backward <= of.of {
        // One backward comes after all of these loops.
        innermost = facts.kept.iter().position(|kept| near(&kept))?;
    } else if of.is_one_call && of.is_graph {
        // The rounds of a loop within a forward look like calls of it.
        let mut all = facts.kept.iter();
        let whole = all.rposition(|kept| near(&kept) && !kept.is_one_call);
        innermost = whole.unwrap_or(innermost);
    }
    let is_part = facts.kept[innermost].is_graph && !is_trained(&facts.kept[innermost]);
    let is_whole = |kept: &Kept| is_trained(kept) && (kept.was_used || kept.was_consumed);
    let trained = facts
        .kept
        .iter()
        .rposition(|kept| near(&kept) && is_whole(kept));
    trained.filter(|_| is_part).or(Some(innermost))
}

fn kind_of(facts: &Facts, kept: &Kept) -> (Kind, Certainty) {
    if kept.of_models {
        // A graph refers to its own parameters.
        let kind = match is_without_object(facts, kept) {
            true => Kind::KeptTensors,
            false => Kind::EarlierModels,
        };
        return (kind, Certainty::Follows);
    }
    if !kept.is_growth {
        return (Kind::PreviousRound, Certainty::Follows);
    }
    let most_ran_it = 2 * kept.with_backward > kept.of;
    if kept.is_of_second_order && !most_ran_it {
        return (Kind::Waiting, Certainty::Likely);
    }
    if !kept.is_graph || kept.is_no_grad {
        // With gradients on and no backward in these rounds, one graph over all of them may hold the tensors.
        let mut parts = facts.parts.iter();
        let has_model = facts.trains || parts.any(|part| part.category == Category::Parameter);
        let has_backward = kept.with_backward > 0 || kept.was_used;
        let may_be_graph = !kept.is_no_grad && !has_backward && has_model;
        return match may_be_graph {
            true => (Kind::NoBackward, Certainty::Likely),
            false => (Kind::KeptTensors, Certainty::Follows),
        };
    }
    if most_ran_it {
        return (Kind::KeptGraphs, Certainty::Likely);
    }
    let kind = match (kept.was_consumed, kept.was_used) {
        (true, _) => Kind::Waiting,
        (false, true) => Kind::KeptGraphs,
        (false, false) => Kind::NoBackward,
    };
    (kind, Certainty::Likely)
}

/// The largest part of the live memory.
fn largest(facts: &Facts) -> Option<Verdict> {
    let parts = sums(facts.parts.iter().map(|part| (part.category, part.figure)));
    let most = parts.first()?.0;
    let state = facts.of_category(Category::OptimizerState).bytes;
    let parameters = facts.of_category(Category::Parameter).bytes;
    let is_much = notable(state.saturating_add(parameters), facts.live, NOTABLE);
    let category = match is_much && models::makes_state(facts) {
        true => Category::OptimizerState,
        false => most,
    };
    if let Some(verdict) = models::copies(facts, state) {
        return Some(verdict);
    }
    let kind = match category {
        Category::OptimizerState => Kind::OptimizerState,
        Category::Workspace => Kind::Workspaces,
        Category::Activation => Kind::Activations,
        Category::Parameter => Kind::Model,
        _ if models::is_of_parameters(facts) => return Some(models::of_walk(facts)),
        _ => return Some(largest_line(facts)),
    };
    let line = facts.parts.iter().find(|part| part.category == category);
    let line = line.map_or(&facts.request.owner, |part| &part.owner);
    let figure = facts.of_category(category);
    // One large tensor in a forward may also be a value that no backward needs.
    if kind == Kind::Activations && figure.blocks <= FEW {
        return Some(largest_line(facts));
    }
    let verdict = of_line(kind, figure, line);
    Some(match kind {
        Kind::Model => models::models(facts, verdict),
        _ => verdict,
    })
}

/// The line with most memory, in all categories.
fn largest_line(facts: &Facts) -> Verdict {
    let lines = sums(facts.parts.iter().map(|part| (&part.owner, part.figure)));
    let most = lines.into_iter().next();
    match most.filter(|(_, figure)| figure.bytes > 0) {
        Some((owner, figure)) => held::of_largest(facts, of_line(Kind::Largest, figure, owner)),
        None => verdict(Kind::Unknown, Certainty::Follows, 0),
    }
}

#[cfg(test)]
mod tests;
