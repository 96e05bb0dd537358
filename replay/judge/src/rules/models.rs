//! Rules about models and copies of them, with what the walk names.

use std::collections::BTreeMap;

use gpumem_replay::{Category, Figure, ThreadPhase};

use super::held::{MUCH, held, proven};
use super::{LEFT, NOTABLE, notable, of_line};
use crate::facts::{Facts, Large};
use crate::holders::{Holder, HolderKind};
use crate::verdict::{Certainty, Kind, Verdict};

/// The models of each container that has several: the holders of their parameters, gradients and optimizer state.
pub(super) fn models_in(facts: &Facts) -> Vec<Vec<usize>> {
    let mut containers: BTreeMap<(&str, &str), Vec<(HolderKind, usize)>> = BTreeMap::new();
    for (at, of) in facts.all_holders().iter().enumerate() {
        let is_part = matches!(
            of.kind,
            HolderKind::Object | HolderKind::Parameters | HolderKind::Gradients
        );
        if is_part && of.is_own && of.has_range() {
            let all = containers.entry((of.name(), &of.place)).or_default();
            all.push((of.kind, at));
        }
    }
    let of_models = |all: &Vec<(HolderKind, usize)>| {
        let mut kinds = all.iter().map(|(kind, _)| *kind);
        let has = all.len() > 1 && kinds.any(|kind| kind == HolderKind::Parameters);
        has && !is_one_model(facts, all)
    };
    let mut models: Vec<_> = containers.into_values().filter(of_models).collect();
    models.iter_mut().for_each(|all| {
        all.sort_by_key(|(kind, at)| (*kind != HolderKind::Parameters, *at));
    });
    let holders = |all: Vec<(HolderKind, usize)>| all.into_iter().map(|(_, at)| at).collect();
    models.into_iter().map(holders).collect()
}

/// Whether what a container has are parts of one model, such as its layers: the round that runs made all their gradients,
/// and not several optimizers have their state.
fn is_one_model(facts: &Facts, all: &[(HolderKind, usize)]) -> bool {
    let has = |at| all.contains(&(HolderKind::Gradients, at));
    let blocks = facts.largest.iter();
    let mut gradients = blocks
        .filter(|of| facts.holder_of(of).is_some_and(has))
        .peekable();
    let optimizers = facts.all_holders().iter().any(Holder::is_of_optimizers);
    !optimizers && gradients.peek().is_some() && gradients.all(|of| of.is_of_round)
}

/// Whether the program made its models after the first step: an earlier one was trained. The size of a small model does not
/// matter.
pub(crate) fn is_of_later_model(facts: &Facts) -> bool {
    let kind = |at: usize| facts.all_holders().get(at).map(|of| of.kind);
    let is_one = |at| kind(at) == Some(HolderKind::Parameters);
    let all = facts.largest.iter();
    let all = all.filter(|of| facts.holder_of(of).is_some_and(is_one));
    let oldest = all.clone().map(|of| of.seq).min();
    let sum = all.fold(0, |sum: u64, of| sum.saturating_add(of.bytes));
    let is_large = notable(sum, facts.live, LEFT);
    is_large && facts.peaks.first.is_some() && oldest > facts.peaks.first
}

/// Whether an optimizer's step makes the request for its state: the first one of the program, or of a later model.
pub(crate) fn makes_state(facts: &Facts) -> bool {
    let request = &facts.request;
    let newest = |category| facts.largest_of(category).map(|of| of.seq).max();
    let state = newest(Category::OptimizerState);
    let is_new = state.is_none() || state > newest(Category::Gradient);
    // Adam's is at most twice the parameters; more is also of others.
    let of = |category| facts.of_category(category).bytes;
    let with_request = of(Category::OptimizerState).saturating_add(request.bytes);
    let is_due = with_request <= of(Category::Parameter).saturating_mul(2);
    request.stacks.purpose.phase() == ThreadPhase::Optimizer
        && (facts.steps == 0 || is_new && is_due && is_of_later_model(facts))
        && !request.in_foreach
        && !request.has_no_size
}

/// The state of an optimizer for a model that was made after earlier ones were trained.
pub(super) fn later_state(facts: &Facts) -> Option<Verdict> {
    let is_later = facts.steps > 0 && makes_state(facts);
    is_later.then(|| super::largest(facts)).flatten()
}

/// The state of earlier optimizers: a container has several, and not their models.
pub(super) fn earlier_optimizers(facts: &Facts) -> Option<Verdict> {
    let all = facts.all_holders();
    let is_model = |of: &Holder| {
        let mut others = all
            .iter()
            .filter(|other| other.kind == HolderKind::Parameters);
        others.any(|other| (other.name(), &other.place) == (of.name(), &of.place))
    };
    let is_one = |of: &Holder| of.is_own && of.is_of_optimizers() && !is_model(of);
    let holders = (0..all.len())
        .filter(|at| is_one(&all[*at]))
        .collect::<Vec<_>>();
    let verdict = (!holders.is_empty()).then(|| held(facts, holders))?;
    notable(verdict.bytes, facts.live, MUCH).then_some(verdict)
}

/// The least percentage of live bytes of models that a container collects.
const COLLECTED: u64 = 60;

/// Models that a container collects while others are trained, such as those of clients, with gradients and optimizer state.
pub(super) fn collected(facts: &Facts) -> Option<Verdict> {
    let all = facts.all_holders();
    let is_model = |at: usize| all.get(at).map(|of| of.kind) == Some(HolderKind::Parameters);
    let is_later = |holders: &Vec<usize>| {
        let first = facts.peaks.first;
        let is_its = |of: &Large| {
            let at = facts.holder_of(of);
            at.is_some_and(|at| holders.contains(&at) && is_model(at))
        };
        let mut later = facts.largest.iter().filter(|of| Some(of.seq) > first);
        first.is_some() && later.any(is_its)
    };
    // The layers of one model have no optimizers.
    let is_trained = |holders: &Vec<usize>| holders.iter().any(|at| all[*at].is_of_optimizers());
    let models = models_in(facts).into_iter();
    let models = models.filter(|of| is_trained(of) && is_later(of));
    let most = models.map(|of| held(facts, of)).max_by_key(|of| of.bytes)?;
    notable(most.bytes, facts.live, COLLECTED).then_some(most)
}

/// How many times its parameters an optimizer's state and their gradients have at most.
const WITH_STATE: u64 = 4;

/// Parameters to which only an optimizer refers: the program replaced them, and their gradients and state stay with them.
pub(super) fn replaced(facts: &Facts) -> Option<Verdict> {
    let all = facts.all_holders();
    let holders = (0..all.len()).filter(|at| all[*at].is_own && all[*at].is_only_of_optimizer());
    let holders: Vec<usize> = holders.collect();
    let verdict = (!holders.is_empty()).then(|| held(facts, holders))?;
    let would_do = verdict.bytes.saturating_mul(WITH_STATE) >= super::missing(facts);
    (would_do && notable(verdict.bytes, facts.live, LEFT)).then_some(verdict)
}

/// A model that was trained before the newest one was made, with its gradients and optimizer state, which nothing has made
/// again since.
pub(super) fn finished(facts: &Facts) -> Option<Verdict> {
    // What it copies is in use.
    let holders = facts.holders.as_ref().filter(|_| !facts.request.in_copy)?;
    let ends = |at: usize| {
        let of = |large: &&Large| holders.blocks.get(&large.address) == Some(&at);
        let seqs = || facts.largest.iter().filter(of).map(|large| large.seq);
        seqs().min().zip(seqs().max())
    };
    let is_model = |of: &Holder| of.is_own && of.kind == HolderKind::Parameters;
    let all = || holders.all.iter().enumerate();
    let models = all().filter(|(_, of)| is_model(of));
    let newest = models.filter_map(|(at, _)| Some(ends(at)?.0)).max()?;
    let is_earlier = |(at, of): &(usize, &Holder)| {
        let is_part = matches!(of.kind, HolderKind::Parameters | HolderKind::Gradients);
        let may = (is_part || of.is_of_optimizer()) && of.is_own && !of.has_range_of_models();
        may && ends(*at).is_some_and(|(_, last)| last < newest)
    };
    let mut earlier: Vec<(usize, &Holder)> = all().filter(is_earlier).collect();
    let was_trained = earlier.iter().any(|(_, of)| !is_model(of));
    // A copy, such as an average of the weights, is not trained.
    let is_of_earlier = |of: &Holder| {
        earlier
            .iter()
            .any(|(_, model)| (&model.text, &model.place) == (&of.text, &of.place))
    };
    let is_of_next = |(at, of): (usize, &Holder)| {
        let may = of.kind == HolderKind::Gradients || of.is_of_optimizer();
        may && !is_of_earlier(of) && ends(at).is_some_and(|(first, _)| first > newest)
    };
    let is_trained = all().any(is_of_next);
    earlier.sort_by_key(|(at, of)| (!is_model(of), *at));
    let is_one = earlier.first().is_some_and(|(_, of)| is_model(of));
    let verdict = held(facts, earlier.into_iter().map(|(at, _)| at).collect());
    (was_trained && is_trained && is_one && notable(verdict.bytes, facts.live, NOTABLE))
        .then_some(verdict)
}

/// The least number of events between two models: more than between the tensors of one.
const BETWEEN: u64 = 32;
/// How many tensors of the same sizes show that one model is like another.
const SIZES: usize = 4;

/// A model is made again, while a variable or an attribute still has the one before.
pub(super) fn earlier_model(facts: &Facts) -> Option<Verdict> {
    let holders = facts.holders.as_ref()?;
    let of = |at: usize| move |large: &&Large| holders.blocks.get(&large.address) == Some(&at);
    let is_model = |of: &&Holder| of.is_own && of.kind == HolderKind::Parameters;
    let is_alone = holders.all.iter().filter(is_model).count() == 1;
    let is_before = |at: usize| {
        let own = || facts.largest.iter().filter(of(at));
        let newest = own().map(|large| large.seq).max();
        let rest = facts.largest_of(Category::Parameter);
        let rest = rest.filter(|large| !of(at)(large) && Some(large.seq) > newest);
        let sizes: Vec<u64> = rest.clone().map(|large| large.bytes).collect();
        let rest = rest.map(|large| (large.seq, large.stack));
        let request = (facts.request.seq, facts.request.stacks.py);
        let rest: Vec<_> = rest.chain([request]).collect();
        let next = rest.iter().map(|(seq, _)| *seq).min();
        let apart = next
            .zip(newest)
            .map(|(next, of)| next.0.saturating_sub(of.0));
        let is_made_again = |large: &Large| rest.iter().any(|(_, of)| *of == large.stack);
        // No variable has the parts of the next one yet.
        let is_apart = apart > Some(BETWEEN) || is_alone && rest.len() > 1;
        // Or one of the same sizes is made elsewhere.
        let is_of_own_size = |bytes: &u64| own().any(|large| large.bytes == *bytes);
        let is_same = sizes.len() >= SIZES && sizes.iter().all(is_of_own_size);
        (own().any(is_made_again) || is_same) && is_apart
    };
    // Without it, the request would have fitted.
    let is_enough = |bytes: u64| {
        let would_do = bytes >= super::missing(facts) && notable(bytes, facts.live, LEFT);
        would_do || notable(bytes, facts.live, NOTABLE)
    };
    let counts = |(at, holder): &(usize, &Holder)| {
        let is_one = holder.is_own && !holder.has_range();
        is_one && holder.kind == HolderKind::Parameters && is_enough(holder.bytes) && is_before(*at)
    };
    // Each thread has one.
    let may = !facts.request.in_forward && !facts.request.in_backward && facts.request.threads < 2;
    let mut all = holders.all.iter().enumerate().filter(counts);
    let (at, holder) = all.next().filter(|_| may)?;
    Some(Verdict {
        line: Some(facts.request.owner.clone().whole()),
        ..proven(Kind::Held, holder.figure(), vec![at])
    })
}

/// Lines that hold the same amount, if that is much, and more than an optimizer's `state`. Of what the walk shows to be a copy
/// beside a model, less is enough.
pub(super) fn copies(facts: &Facts, state: u64) -> Option<Verdict> {
    if is_one_module(facts) {
        return None;
    }
    let copied: u64 = facts.copies.iter().map(|of| of.figure.bytes).sum();
    let figure = Figure {
        bytes: copied,
        blocks: facts.copies.iter().map(|of| of.figure.blocks).sum(),
    };
    let line = facts.copies.first().map(|of| &of.owner);
    let verdict = Verdict {
        certainty: Certainty::Likely,
        ..of_line(Kind::Copies, figure, line)
    };
    let verdict = of_copies(facts, verdict);
    // Two variables are two tensors.
    let is_variable = |of: &Holder| of.kind == HolderKind::Object && of.is_variable();
    let mut holders = verdict
        .holders
        .iter()
        .filter_map(|at| facts.all_holders().get(*at));
    if !verdict.holders.is_empty() && holders.all(is_variable) {
        return None;
    }
    let counts = match has_copy(facts, &verdict) {
        true => notable(copied, facts.live, NOTABLE),
        false => notable(copied, facts.live, 40) && copied > state,
    };
    counts.then_some(verdict)
}

/// Whether one module has all of these lines: they are its layers.
fn is_one_module(facts: &Facts) -> bool {
    let Some(holders) = &facts.holders else {
        return false;
    };
    let mut all = facts.copies.iter().map(|of| holders.of(&of.blocks));
    let Some(first) = all.next() else {
        return false;
    };
    let kinds = first.iter().filter_map(|at| holders.all.get(*at));
    let kinds: Vec<HolderKind> = kinds.map(|of| of.kind).collect();
    kinds == [HolderKind::Parameters] && all.all(|of| of == first)
}

/// Copies, with what the walk names: parameters of modules, and other objects that have as much, which come first.
fn of_copies(facts: &Facts, verdict: Verdict) -> Verdict {
    let Some(all) = &facts.holders else {
        return verdict;
    };
    let mut holders: Vec<usize> = Vec::new();
    for copied in &facts.copies {
        let [of] = all.of(&copied.blocks)[..] else {
            return verdict;
        };
        if !holders.contains(&of) {
            holders.push(of);
        }
    }
    let kind = |at: &usize| all.all.get(*at).map(|of| of.kind);
    holders.sort_by_key(kind);
    let is_own = |at: &usize| all.all.get(*at).is_some_and(|of| of.is_own);
    match holders.len() > 1 && holders.iter().all(is_own) {
        true => Verdict { holders, ..verdict },
        false => verdict,
    }
}

/// Whether what a verdict is about are parameters and a container with as much.
fn has_copy(facts: &Facts, verdict: &Verdict) -> bool {
    let all = facts.all_holders();
    let holders = || verdict.holders.iter().filter_map(|at| all.get(*at));
    holders().any(|of| of.kind == HolderKind::Parameters)
        && holders().any(|of| of.kind == HolderKind::Object && of.is_element())
}

/// The least percentage of live bytes of modules' parameters, to be the cause although no forward has used them yet.
const OF_MODULES: u64 = 60;

/// Whether the walk shows that most of the memory is parameters and buffers of modules.
pub(super) fn is_of_parameters(facts: &Facts) -> bool {
    notable(parameters(facts).0.bytes, facts.live, OF_MODULES)
}

/// That memory.
pub(super) fn of_walk(facts: &Facts) -> Verdict {
    let (figure, holders) = parameters(facts);
    let line = held(facts, holders).line;
    models(facts, of_line(Kind::Model, figure, line.as_ref()))
}

fn parameters(facts: &Facts) -> (Figure, Vec<usize>) {
    let all = facts.all_holders().iter().enumerate();
    let all = all.filter(|(_, of)| of.kind == HolderKind::Parameters && of.is_own);
    let figure = all.clone().map(|(_, of)| of.figure()).sum();
    (figure, all.map(|(at, _)| at).collect())
}

/// Parameters, if the walk shows several models in one container.
pub(super) fn models(facts: &Facts, verdict: Verdict) -> Verdict {
    let all = facts.all_holders().iter().enumerate();
    let models =
        all.filter(|(_, of)| of.kind == HolderKind::Parameters && of.is_own && of.is_element());
    let models: Vec<(usize, &Holder)> = models.collect();
    let Some((first, of)) = models.first() else {
        return verdict;
    };
    let is_same = |other: &Holder| (other.name(), &other.place) == (of.name(), &of.place);
    let count = models.iter().filter(|(_, other)| is_same(other)).count();
    match count > 1 || of.cached_by().is_some() {
        true => Verdict {
            certainty: Certainty::Proven,
            holders: vec![*first],
            ..verdict
        },
        false => verdict,
    }
}
