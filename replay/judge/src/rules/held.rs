//! Rules about who keeps memory. They need the walk through the program's objects, which shows what they state.

use std::collections::BTreeMap;

use gpumem_replay::attribution::Owner;
use gpumem_replay::{Category, Figure};

use super::{NOTABLE, notable, of_line};
use crate::facts::Facts;
use crate::holders::{Holder, HolderKind};
use crate::kept::Kept;
use crate::verdict::{Certainty, Kind, Verdict};

/// The least percentage of live bytes that one object keeps, to be a cause without rounds.
const MUCH: u64 = 40;

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
    let holders = facts.holders.as_ref()?;
    let mut lines: BTreeMap<usize, u64> = BTreeMap::new();
    for of in &facts.largest {
        if holders
            .blocks
            .get(&of.address)
            .is_some_and(|at| is_one(*at))
        {
            *lines.entry(of.part).or_default() += of.bytes;
        }
    }
    let (part, _) = lines.into_iter().max_by_key(|(_, bytes)| *bytes)?;
    facts.parts.get(part).map(|part| part.owner.clone())
}

fn proven(kind: Kind, figure: Figure, holders: Vec<usize>) -> Verdict {
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
    let Some(holder) = holders.first().and_then(|at| all.all.get(*at)) else {
        return verdict;
    };
    let kind = match (holder.kind, verdict.kind) {
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
        (HolderKind::Traceback | HolderKind::Cycle | HolderKind::Native, kind) => {
            return Verdict { kind, ..verdict };
        }
        (_, kind) => kind,
    };
    Verdict {
        kind,
        certainty: Certainty::Proven,
        holders: if holder.is_own { holders } else { Vec::new() },
        ..verdict
    }
}

/// One object keeps a large part: a list, a dictionary, or while a forward runs the graph of one that has ended. Parameters
/// and the state of an optimizer are not such objects.
pub(super) fn by_one_object(facts: &Facts) -> Option<Verdict> {
    let counts = |holder: &Holder| {
        let of_ended_forward =
            || facts.request.in_forward && !facts.request.in_backward && !holder.is_in_forward();
        match holder.kind {
            HolderKind::Object => {
                let is_state = holder.text.contains(".state[");
                // An attribute of modules may have what a graph needs anyway.
                let is_cache = holder.cached_by().or(holder.cached_property()).is_some();
                let frees = is_cache || holder.text.ends_with(']') || holder.frees > Some(0);
                let is_container = (holder.is_container() || is_cache) && frees;
                let is_attribute = holder.text.contains('.') && !is_cache;
                let counts = is_container && !(is_attribute && is_of_graph(facts, holder));
                holder.is_own && (counts || holder.is_of_calls()) && !is_state
            }
            // A list that a running call builds.
            HolderKind::Native => holder.is_container(),
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
        same.collect::<Vec<_>>()
    });
    // All that is below one variable, in nested dictionaries.
    let mut variables: BTreeMap<(&str, &str), Vec<(usize, &Holder)>> = BTreeMap::new();
    let is_object = |of: &Holder| of.kind == HolderKind::Object && of.is_own && !of.is_of_calls();
    for (at, of) in all().filter(|(_, of)| is_object(of)) {
        if let Some(name) = of.variable() {
            variables
                .entry((name, &of.place))
                .or_default()
                .push((at, of));
        }
    }
    let sum =
        |parts: &Vec<(usize, &Holder)>| parts.iter().map(|(_, of)| of.figure()).sum::<Figure>();
    let much = |parts: &Vec<(usize, &Holder)>| notable(sum(parts).bytes, facts.live, MUCH);
    let whole = variables.into_values().filter(|parts| parts.len() > 1);
    let whole = whole.max_by_key(|parts| sum(parts).bytes);
    let found = one.filter(much).or(whole.filter(much));
    found.map(|parts| {
        let figure = sum(&parts);
        let holders: Vec<usize> = parts.into_iter().map(|(at, _)| at).collect();
        Verdict {
            line: line_of(facts, |of| holders.contains(&of)),
            ..proven(Kind::Held, figure, holders)
        }
    })
}

/// Whether a forward or backward that runs needs what an object has.
fn is_of_graph(facts: &Facts, holder: &Holder) -> bool {
    let of = facts.holders.as_ref().map(|of| (&of.blocks, &of.all));
    let (mut all, mut activations) = (0, 0);
    for large in &facts.largest {
        let at = of.and_then(|(blocks, _)| blocks.get(&large.address));
        if at.and_then(|at| of?.1.get(*at)) == Some(holder) {
            all += large.bytes;
            let part = facts.parts.get(large.part);
            if part.is_some_and(|part| part.category == Category::Activation) {
                activations += large.bytes;
            }
        }
    }
    let runs = facts.request.in_forward || facts.request.in_backward;
    runs && notable(activations, all, 80)
}

/// Whether no Python object has what earlier rounds hold.
pub(crate) fn is_without_object(facts: &Facts, kept: &Kept) -> bool {
    facts.holders.as_ref().is_some_and(|holders| {
        let bytes = holders.without_object();
        let is_enough = bytes > 0 && notable(bytes, kept.figure.bytes, 80);
        is_enough && holders.of(&kept.blocks).is_empty()
    })
}

/// Activations, if the walk shows on which tensor their graph hangs.
pub(super) fn activations(facts: &Facts, verdict: Verdict) -> Verdict {
    let is_own = |at: usize| facts.all_holders().get(at).is_some_and(|of| of.is_own);
    let holders = facts.holders.as_ref();
    match holders.and_then(|holders| holders.of_kind(HolderKind::Graph)) {
        Some((figure, at)) if figure.bytes >= verdict.bytes / 2 && is_own(at) => Verdict {
            certainty: Certainty::Proven,
            holders: vec![at],
            ..verdict
        },
        _ => verdict,
    }
}

/// Lines that hold the same amount, if that is much, and more than an optimizer's `state`. Of what the walk shows to be a copy
/// beside a model, less is enough.
pub(super) fn copies(facts: &Facts, state: u64) -> Option<Verdict> {
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

/// Whether what earlier rounds hold is in a list that a running call builds, or are variables of calls that run at the same
/// time: then these are no rounds.
pub(super) fn is_being_built(facts: &Facts, kept: &Kept) -> bool {
    first(facts, kept).is_some_and(|holder| {
        holder.kind == HolderKind::Native && holder.is_container() || holder.is_of_calls()
    })
}
