//! Rules about who keeps memory. They need the walk through the program's objects, which shows what they state.

use std::collections::BTreeMap;

use gpumem_replay::attribution::Owner;
use gpumem_replay::{Category, Figure};

use super::models::{models_in, replaced};
use super::{NOTABLE, notable, of_line};
use crate::facts::{Facts, Large, Running};
use crate::holders::{Holder, HolderKind};
use crate::kept::Kept;
use crate::verdict::{Certainty, Kind, Verdict};

/// The least percentage of live bytes that one object keeps, to be a cause without rounds.
pub(super) const MUCH: u64 = 40;

/// Memory that only an exception or a reference cycle keeps.
pub(super) fn leftover(facts: &Facts) -> Option<Verdict> {
    let holders = facts.holders.as_ref()?;
    let kinds = [
        (HolderKind::Traceback, Kind::Exception),
        (HolderKind::Cycle, Kind::Cycle),
    ];
    let missing = super::missing(facts);
    kinds.into_iter().find_map(|(of, kind)| {
        let (figure, holder) = holders.of_kind(of)?;
        // Without it, the request would have fitted.
        let would_do = figure.bytes >= missing && notable(figure.bytes, facts.live, 10);
        // Of calls that run at the same time, one may have failed a moment ago.
        let would_do = would_do && by_calls(facts).is_none();
        (would_do || notable(figure.bytes, facts.live, NOTABLE)).then(|| Verdict {
            line: line_of(facts, |at| {
                holders.all.get(at).is_some_and(|it| it.kind == of)
            }),
            ..proven(kind, figure, vec![holder])
        })
    })
}

/// The line that allocated most of what some holders have.
fn line_of(facts: &Facts, is_one: impl Fn(usize) -> bool) -> Option<Owner> {
    let mut lines: BTreeMap<usize, u64> = BTreeMap::new();
    for of in &facts.largest {
        if facts.holder_of(of).is_some_and(&is_one) {
            *lines.entry(of.part).or_default() += of.bytes;
        }
    }
    let (part, _) = lines.into_iter().max_by_key(|(_, bytes)| *bytes)?;
    facts.parts.get(part).map(|part| part.owner.clone())
}

pub(super) fn proven(kind: Kind, figure: Figure, holders: Vec<usize>) -> Verdict {
    Verdict {
        certainty: Certainty::Proven,
        holders,
        ..of_line(kind, figure, None)
    }
}

/// What earlier rounds hold, if the walk shows who keeps it.
pub(super) fn of_rounds(facts: &Facts, kept: &Kept, verdict: Verdict) -> Verdict {
    let Some(all) = &facts.holders else {
        return verdict;
    };
    let holders = all.of(&kept.blocks);
    let Some((first, holder)) = holders
        .first()
        .and_then(|at| Some((*at, all.all.get(*at)?)))
    else {
        return verdict;
    };
    // The rounds are parts of one object, which is being made.
    if holder.is_of_new_object() && verdict.kind == Kind::KeptTensors {
        let mut new = holders;
        new.retain(|at| all.all.get(*at).is_some_and(Holder::is_of_new_object));
        return held(facts, new);
    }
    // What a model has is kept with the model.
    let mut models = models_in(facts).into_iter();
    match (models.find(|of| of.contains(&first)), verdict.kind) {
        (Some(holders), Kind::EarlierModels) => {
            return Verdict {
                certainty: Certainty::Proven,
                holders,
                ..verdict
            };
        }
        (Some(holders), Kind::KeptTensors) => return held(facts, holders),
        (_, Kind::KeptTensors) if holder.is_of_optimizer() => {
            if let Some(replaced) = replaced(facts) {
                return replaced;
            }
        }
        _ => {}
    }
    let kind = match (holder.kind, verdict.kind) {
        (HolderKind::Graph | HolderKind::Object, _) if is_of_running(facts, holder) => {
            Kind::Activations
        }
        // What `backward(create_graph=True)` adds up.
        (HolderKind::Graph, _) if holder.is_of_gradients() => Kind::KeptGraphs,
        // A comprehension or a map() has its list in a running call.
        (HolderKind::Graph, _)
            if holder.is_in_forward() || !(holder.is_own || holder.has_range()) =>
        {
            Kind::Activations
        }
        (HolderKind::Graph, Kind::KeptTensors) => {
            match kept.with_backward * 2 > kept.of || kept.was_used {
                true => Kind::KeptGraphs,
                false => Kind::NoBackward,
            }
        }
        (HolderKind::Object, Kind::KeptGraphs | Kind::NoBackward | Kind::Waiting) => {
            Kind::KeptTensors
        }
        (HolderKind::Traceback | HolderKind::Cycle, _) => return verdict,
        (_, kind) => kind,
    };
    let is_named = match holder.kind {
        HolderKind::Native => kind == Kind::KeptTensors,
        HolderKind::Object if !holder.is_own => holder.is_container(),
        HolderKind::Graph if !holder.is_own => holder.has_range() && kind == Kind::NoBackward,
        _ => holder.is_own && kind != Kind::Activations,
    };
    Verdict {
        kind,
        certainty: Certainty::Proven,
        holders: if is_named { holders } else { Vec::new() },
        ..verdict
    }
}

/// What some holders keep.
pub(super) fn held(facts: &Facts, holders: Vec<usize>) -> Verdict {
    let each = holders.iter().filter_map(|at| facts.all_holders().get(*at));
    let figure = each.map(Holder::figure).sum();
    Verdict {
        line: line_of(facts, |of| holders.contains(&of)),
        ..proven(Kind::Held, figure, holders)
    }
}

/// One object keeps a large part: a list, a dictionary, or while a forward runs the graph of one that has ended. Parameters
/// and the state of an optimizer are not such objects.
pub(super) fn by_one_object(facts: &Facts) -> Option<Verdict> {
    let counts = |holder: &Holder| {
        let of_ended_forward = || {
            let can = !holder.is_variable()
                || facts.request.in_forward && is_of_earlier_round(facts, holder);
            let is_used = facts.request.in_backward || holder.is_in_forward();
            can && !is_used && !is_of_running(facts, holder)
        };
        match holder.kind {
            HolderKind::Object => {
                let is_cache = holder.cached_by().or(holder.cached_property()).is_some();
                let frees = is_cache || holder.text.ends_with(']') || holder.frees > Some(0);
                let is_container = (holder.is_container() || is_cache) && frees;
                let counts = is_container && (is_cache || !is_of_running(facts, holder));
                let is_state = holder.is_of_optimizer() && !holder.is_in_list_in_state();
                holder.is_own && (counts || holder.is_of_calls()) && !is_state
            }
            // A list that a running call builds.
            HolderKind::Native => {
                let may = holder.is_container() && !holder.is_of_checkpoint();
                may && !is_of_new_model(facts, holder)
            }
            HolderKind::Graph => (holder.is_own || holder.has_range()) && of_ended_forward(),
            _ => false,
        }
    };
    let all = || facts.all_holders().iter().enumerate();
    let one = all()
        .filter(|(_, holder)| counts(holder))
        .max_by_key(|(_, of)| of.bytes);
    let one = one.map(|(at, holder)| {
        // The variables of calls that run at the same time are one.
        let is_same =
            |of: &Holder| of.is_of_calls() && (of.kind, &of.place) == (holder.kind, &holder.place);
        let same = all().filter(|(other, of)| *other == at || is_same(of));
        same.map(|(at, _)| at).collect::<Vec<_>>()
    });
    // All that is below one variable, in nested dictionaries.
    let mut variables: BTreeMap<(&str, &str), Vec<usize>> = BTreeMap::new();
    let is_object = |of: &Holder| {
        // Without it, something else still has the tensors, such as an optimizer that was loaded from it.
        let frees = of.frees != Some(0);
        let is_own = of.kind == HolderKind::Object && of.is_own && frees;
        is_own && !of.is_of_calls() && !of.is_of_optimizer()
    };
    for (at, of) in all().filter(|(_, of)| is_object(of)) {
        if let Some(name) = of.variable() {
            variables.entry((name, &of.place)).or_default().push(at);
        }
    }
    let whole = variables.into_values().filter(|parts| parts.len() > 1);
    let whole = whole.chain(models_in(facts)).map(|of| held(facts, of));
    let whole = whole.max_by_key(|of| of.bytes);
    // Without such a variable, for example a checkpoint, the request would have fitted.
    let would_do = |of: &Verdict| {
        let all = of
            .holders
            .iter()
            .filter_map(|at| facts.all_holders().get(*at));
        let frees: u64 = all.filter_map(|of| of.frees).sum();
        let missing = super::missing(facts);
        let mut blocks = facts.largest.iter();
        let has_block = blocks.any(|large| {
            let is_of = facts
                .holder_of(large)
                .is_some_and(|at| of.holders.contains(&at));
            is_of && large.bytes >= facts.request.bytes
        });
        frees >= missing && (missing > 0 || has_block) && notable(of.bytes, facts.live, NOTABLE)
    };
    let enough = whole.clone().filter(would_do);
    let one = one.map(|of| held(facts, of));
    let attributes = attributes(facts, counts);
    let attributes = attributes.into_iter().map(|of| held(facts, of));
    let all = whole.into_iter().chain(one).chain(attributes);
    let most = all.max_by_key(|of| of.bytes);
    most.filter(|of| notable(of.bytes, facts.live, MUCH))
        .or(enough)
}

/// How many attributes of one object are named.
const ATTRIBUTES: usize = 4;

/// Attributes of one object that have about as much each, such as `cache.keys` and `cache.values`.
fn attributes(facts: &Facts, counts: impl Fn(&Holder) -> bool) -> Vec<Vec<usize>> {
    let mut objects: BTreeMap<(&str, &str), Vec<usize>> = BTreeMap::new();
    for (at, of) in facts.all_holders().iter().enumerate() {
        let is_object = of.kind == HolderKind::Object && !of.is_of_optimizer();
        let is_one = is_object && of.is_in_attribute() && counts(of);
        if let Some((object, _)) = of.name().rsplit_once('.').filter(|_| is_one) {
            objects.entry((object, &of.place)).or_default().push(at);
        }
    }
    let bytes = |at: &usize| facts.all_holders().get(*at).map_or(0, |of| of.bytes);
    let mut all: Vec<Vec<usize>> = objects.into_values().collect();
    for of in &mut all {
        of.sort_by_key(|at| core::cmp::Reverse(bytes(at)));
        let most = of.first().map_or(0, bytes);
        of.retain(|at| bytes(at) >= most / 2);
    }
    all.retain(|of| (2..=ATTRIBUTES).contains(&of.len()));
    all
}

/// The least calls whose variables are a cause before free memory in blocks that are too small.
const CALLS: u64 = 3;
/// The least percentage of live bytes that such calls have.
const MOST: u64 = 60;

/// Variables of calls that run at the same time, such as those of threads that wait for work, have most of the memory.
pub(super) fn by_calls(facts: &Facts) -> Option<Verdict> {
    let all = facts.all_holders();
    let is_one = |of: &Holder| of.is_own && of.is_of_calls() && of.blocks >= CALLS;
    let first = all
        .iter()
        .filter(|of| is_one(of))
        .max_by_key(|of| of.bytes)?;
    let is_same = |of: &Holder| is_one(of) && of.place == first.place;
    let holders = (0..all.len()).filter(|at| is_same(&all[*at])).collect();
    let verdict = held(facts, holders);
    let free = facts.cache.as_ref().map_or(0, |of| of.usable.bytes);
    (notable(verdict.bytes, facts.live, MOST) && verdict.bytes > free).then_some(verdict)
}

/// Whether the graph of a forward or backward that runs needs what an object has, or is what a graph has.
fn is_of_running(facts: &Facts, holder: &Holder) -> bool {
    // What a forward puts into an attribute of its module is its own.
    let is_of = |running: Running| match running {
        Running::Perhaps => holder.is_in_attribute(),
        of => of == Running::Yes,
    };
    let (mut all, mut activations) = (0, 0);
    for large in &facts.largest {
        if is_held_by(facts, large, holder) {
            all += large.bytes;
            let part = facts.parts.get(large.part);
            let is_activation = part.is_some_and(|part| part.category == Category::Activation);
            if is_activation && is_of(large.running) {
                activations += large.bytes;
            }
        }
    }
    notable(activations, all, 80)
}

/// Whether a list has the layers of a model that is being made: `nn.ModuleList([Layer() for _ in range(48)])`.
fn is_of_new_model(facts: &Facts, holder: &Holder) -> bool {
    let is_its = |large: &&Large| is_held_by(facts, large, holder);
    let category = |of: &Large| facts.parts.get(of.part).map(|part| part.category);
    let is_parameter = |of: &Large| category(of) == Some(Category::Parameter);
    let mut blocks = facts.largest.iter().filter(is_its).peekable();
    let is_of_parameters = blocks.peek().is_some() && blocks.all(is_parameter);
    let is_model = |of: &Holder| of.is_own && of.kind == HolderKind::Parameters;
    let has_model = facts.all_holders().iter().any(is_model);
    let function = holder.place.split(" (").next().unwrap_or_default();
    is_of_parameters && (has_model || function.contains("__init__"))
}

/// Whether an object has blocks of a round before the one that runs.
fn is_of_earlier_round(facts: &Facts, holder: &Holder) -> bool {
    let mut earlier = facts.largest.iter().filter(|large| !large.is_of_round);
    earlier.any(|large| is_held_by(facts, large, holder))
}

fn is_held_by(facts: &Facts, large: &Large, holder: &Holder) -> bool {
    let at = facts.holder_of(large);
    at.and_then(|at| facts.all_holders().get(at)) == Some(holder)
}

/// How many blocks of one line may be what one operator works with.
const OF_ONE_CALL: u64 = 4;

/// Whether a few blocks of one line may be those of one operator, which no object has.
pub(super) fn is_of_one_call(facts: &Facts, kept: &Kept) -> bool {
    kept.is_line && kept.figure.blocks <= OF_ONE_CALL && is_without_object(facts, kept)
}

/// Whether no Python object has what earlier rounds hold.
pub(crate) fn is_without_object(facts: &Facts, kept: &Kept) -> bool {
    facts.holders.as_ref().is_some_and(|holders| {
        let bytes = holders.without_object();
        let is_enough = bytes > 0 && notable(bytes, kept.figure.bytes, 80);
        is_enough && holders.of(&kept.blocks).is_empty()
    })
}

/// Who keeps the largest line's blocks, if that is a variable, an attribute or a container of the program, not of a
/// forward that runs.
pub(super) fn of_largest(facts: &Facts, verdict: Verdict) -> Verdict {
    let Some(all) = &facts.holders else {
        return verdict;
    };
    let line = |part: usize| facts.parts.get(part).map(|part| &part.owner);
    let mine = facts.largest.iter();
    let mine = mine.filter(|of| line(of.part) == verdict.line.as_ref());
    let blocks: Vec<(u64, u64)> = mine.map(|of| (of.address, of.bytes)).collect();
    let is_named = |at: &usize| {
        all.all.get(*at).is_some_and(|of| {
            of.kind == HolderKind::Object && of.is_own && !of.is_of_calls() && !of.is_in_forward()
        })
    };
    let holders = all.of(&blocks);
    match !holders.is_empty() && holders.iter().all(is_named) {
        true => Verdict { holders, ..verdict },
        false => verdict,
    }
}

/// Who keeps most of what earlier rounds hold.
fn first<'a>(facts: &'a Facts, kept: &Kept) -> Option<&'a Holder> {
    let all = facts.holders.as_ref()?;
    all.all.get(*all.of(&kept.blocks).first()?)
}

/// Whether a container or an attribute of the program has what earlier rounds hold.
pub(super) fn is_in_container(facts: &Facts, kept: &Kept) -> bool {
    first(facts, kept).is_some_and(|of| {
        let can = matches!(of.kind, HolderKind::Object | HolderKind::Graph);
        can && of.is_own && !of.is_variable() && !of.is_in_forward()
    })
}

/// Whether a variable outside of the forward that runs has what the round before made.
pub(super) fn is_in_variable(facts: &Facts, kept: &Kept) -> bool {
    let is_object = |of: &Holder| of.kind == HolderKind::Object && of.is_own && of.is_variable();
    facts.request.in_forward
        && first(facts, kept).is_some_and(|of| is_object(of) && !of.is_in_forward())
}

/// Whether what earlier rounds hold is in a list that a running call builds, or are variables of calls that run at the same
/// time: then these are no rounds.
pub(super) fn is_being_built(facts: &Facts, kept: &Kept) -> bool {
    first(facts, kept).is_some_and(|holder| {
        holder.is_being_built() || holder.is_of_calls() || is_operand(facts, holder)
    })
}

/// Whether the request is what a call makes from its own list: `torch.cat(parts)`.
pub(super) fn is_operand(facts: &Facts, holder: &Holder) -> bool {
    let is_list = holder.is_container() && !holder.text.contains('.');
    facts.is_of_request(holder) && is_list && notable(facts.request.bytes, holder.bytes, 80)
}
