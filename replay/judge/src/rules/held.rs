//! Rules about who keeps memory. They need the walk through the program's objects, which shows what they state.

use gpumem_replay::Figure;

use super::{NOTABLE, notable, verdict};
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
        (would_do || notable(figure.bytes, facts.live, NOTABLE))
            .then(|| proven(kind, figure, holder))
    })
}

fn proven(kind: Kind, figure: Figure, holder: usize) -> Verdict {
    Verdict {
        blocks: figure.blocks,
        holders: vec![holder],
        ..verdict(kind, Certainty::Proven, figure.bytes)
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
        (HolderKind::Graph, _) if !holder.is_own || holder.is_in_forward() => Kind::Activations,
        (HolderKind::Graph, Kind::KeptTensors) => match kept.with_backward * 2 > kept.of {
            true => Kind::KeptGraphs,
            false => Kind::NoBackward,
        },
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
    let holders = facts.holders.as_ref()?;
    let counts = |holder: &Holder| {
        let of_ended_forward =
            || facts.request.in_forward && !facts.request.in_backward && !holder.is_in_forward();
        match holder.kind {
            HolderKind::Object => {
                holder.is_own && holder.is_container() && !holder.text.contains(".state[")
            }
            // A list that a running call builds.
            HolderKind::Native => holder.is_container(),
            HolderKind::Graph => holder.is_own && of_ended_forward(),
            _ => false,
        }
    };
    let all = holders.all.iter().enumerate();
    let (at, holder) = all
        .filter(|(_, holder)| counts(holder))
        .max_by_key(|(_, of)| of.bytes)?;
    let figure = Figure {
        bytes: holder.bytes,
        blocks: holder.blocks,
    };
    notable(figure.bytes, facts.live, MUCH).then(|| proven(Kind::Held, figure, at))
}

/// Activations, if the walk shows on which tensor their graph hangs.
pub(super) fn activations(facts: &Facts, verdict: Verdict) -> Verdict {
    let all = facts.holders.iter().flat_map(|holders| &holders.all);
    let all: Vec<&Holder> = all.collect();
    let is_own = |at: usize| all.get(at).is_some_and(|holder| holder.is_own);
    let graph = facts
        .holders
        .as_ref()
        .and_then(|holders| holders.of_kind(HolderKind::Graph));
    match graph {
        Some((figure, at)) if figure.bytes >= verdict.bytes / 2 && is_own(at) => Verdict {
            certainty: Certainty::Proven,
            holders: vec![at],
            ..verdict
        },
        _ => verdict,
    }
}

/// Whether what earlier rounds hold is in a list that a running call builds: then these are no rounds.
pub(super) fn is_being_built(facts: &Facts, kept: &Kept) -> bool {
    let first = facts.holders.as_ref().and_then(|holders| {
        let at = *holders.of(&kept.blocks).first()?;
        holders.all.get(at)
    });
    first.is_some_and(|holder| holder.kind == HolderKind::Native && holder.is_container())
}
