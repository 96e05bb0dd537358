//! Judges the cause of a failure by its evidence.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use gpumem_capture::{EventFlags, Level, Seq};

use super::course::{Course, Growth, Moment};
use super::graph::{Grows, holder};
use super::kind::CauseKind;
use super::places::{Place, place};
use crate::account::limit_of;
use crate::attribution::Owner;
use crate::replay::{Figure, OutOfMemory, Replay};
use crate::views::by_stack::Owners;
use crate::views::fragmentation::FragmentedAt;

/// The smallest page of the card.
const PAGE: u64 = 2 << 20;
/// The least percentage of live bytes that grew, for growth as the cause.
const GROWN: u64 = 25;
/// The least percentage of free bytes in the framework's memory, for fragmentation as the cause.
const FREE: u64 = 25;
/// The function that PyTorch calls for each new autograd node.
const NUMBERED: &str = "_ZN2at15sequence_number17get_and_incrementEv";

/// A line as in tables, and its function.
pub(super) type Line = (String, String);

/// The cause with figures.
#[derive(Clone, Debug)]
pub(super) struct Found {
    pub kind: CauseKind,
    /// The bytes that the cause is about.
    pub bytes: u64,
    pub blocks: u64,
    /// All live bytes.
    pub live: u64,
    /// The line that the cause is about; for kept graphs the holder, if one is known.
    pub line: Option<Line>,
    /// The line with most of the bytes.
    pub most: Option<Line>,
    /// The number of rounds, and whether they are of a loop.
    pub rounds: (u64, bool),
    pub per_round: u64,
    /// The number of autograd nodes, if known.
    pub nodes: Option<u64>,
    pub asked: u64,
    pub total: Option<u64>,
    pub is_limited: bool,
    pub others: u64,
    pub mine: u64,
    pub free: Option<u64>,
    pub cached: u64,
    pub would_fit: Option<bool>,
    /// The number of free blocks and the largest.
    pub pieces: Option<(u64, u64)>,
}

/// A stack that grew.
struct Grown {
    owner: Owner,
    place: Place,
    live: Figure,
    growth: Growth,
    first: Seq,
}

/// The free bytes that the card needs for a request.
fn needed(bytes: u64) -> u64 {
    bytes.max(1).checked_next_multiple_of(PAGE).unwrap_or(bytes)
}

pub(super) fn judge(
    replay: &Replay,
    course: &Course,
    failure: &OutOfMemory,
    level: Level,
) -> Found {
    let event = &failure.event;
    let nothing = Moment::default();
    let moment = course.moment.as_ref().unwrap_or(&nothing);
    let mut found = facts(replay, failure, moment, level);
    let names_bytes = event.level != Level::PHYSICAL || event.bytes > 0;
    // If the size is not known, it is more than the free bytes.
    let need = match (names_bytes, found.free) {
        (false, Some(free)) => free.saturating_add(1),
        _ => needed(event.bytes),
    };
    if event.level == Level::HOST {
        found.kind = CauseKind::Host;
        return found;
    }
    if found.total.is_some_and(|total| event.bytes > total) {
        found.kind = CauseKind::TooLarge;
        return found;
    }
    let (free, cached, others) = (found.free, found.cached, found.others);
    let without = free.map(|free| free.saturating_add(cached).saturating_add(others));
    if found.would_fit == Some(false) && others >= found.mine && without >= Some(need) {
        found.kind = CauseKind::OtherProcesses;
        found.bytes = others;
        return found;
    }
    let refused = match event.level {
        Level::PHYSICAL => 0,
        _ => moment.refused.unwrap_or(0),
    };
    let of_driver = need.max(needed(event.bytes.max(refused)));
    let was_refused = failure.was_refused();
    let is_not_memory = was_refused && free.is_some_and(|free| free >= of_driver);
    if is_not_memory {
        found.kind = CauseKind::NotMemory;
        found.bytes = free.unwrap_or(0);
        return found;
    }
    if growing(replay, course, failure, level, &mut found) {
        return found;
    }
    if event.level == Level::PHYSICAL && notable(cached, moment.reserved, FREE) {
        found.kind = CauseKind::Cached;
        found.bytes = cached;
        return found;
    }
    if !was_refused && free.is_some_and(|free| free >= need) {
        found.kind = CauseKind::OwnLimit;
        return found;
    }
    if found.would_fit == Some(true) && notable(cached, moment.reserved, FREE) {
        found.kind = CauseKind::Fragmentation;
        found.bytes = cached;
        let pool = moment.pool.as_ref();
        found.pieces = pool.map(|pool| {
            let at = FragmentedAt::of(pool, event.bytes);
            (at.free_blocks, at.largest_free_block_bytes)
        });
        return found;
    }
    largest(replay, course, failure, level, &mut found);
    found
}

fn notable(part: u64, of: u64, percent: u64) -> bool {
    part > 0 && u128::from(part) * 100 >= u128::from(of) * u128::from(percent)
}

/// The facts that do not depend on the cause.
fn facts(replay: &Replay, failure: &OutOfMemory, moment: &Moment, level: Level) -> Found {
    let event = &failure.event;
    let limit = limit_of(replay, event.device);
    let card = replay.names.devices.get(&event.device);
    let total = limit.or(card.map(|card| card.total_bytes));
    let others = moment.reading.and_then(|of| of.others).unwrap_or(0);
    let kept = moment.reading.and_then(|of| of.card?.reserved).unwrap_or(0);
    // This process's bytes are exact; those of others are as of the reading.
    let taken = [
        moment.physical,
        others,
        if limit.is_none() { kept } else { 0 },
    ];
    let taken = taken
        .iter()
        .fold(0, |sum: u64, part| sum.saturating_add(*part));
    let free = total.map(|total| total.saturating_sub(taken));
    let cached = moment.reserved.saturating_sub(moment.tensor);
    Found {
        kind: CauseKind::Unknown,
        bytes: event.bytes,
        blocks: 0,
        live: match level {
            Level::TENSOR => moment.tensor,
            _ => moment.live,
        },
        line: None,
        most: None,
        rounds: (0, false),
        per_round: 0,
        nodes: replay.names.calls_of(NUMBERED),
        asked: event.bytes,
        total,
        is_limited: limit.is_some(),
        others,
        mine: moment.physical,
        free,
        cached,
        would_fit: free.map(|free| free.saturating_add(cached) >= needed(event.bytes)),
        pieces: None,
    }
}

fn named(replay: &Replay, owner: &Owner) -> Line {
    (owner.label(&replay.names), owner.function().to_owned())
}

/// Whether memory grew, and is a large part of all live bytes.
fn growing(
    replay: &Replay,
    course: &Course,
    failure: &OutOfMemory,
    level: Level,
    found: &mut Found,
) -> bool {
    let failed = failure.span_context.stacks.py;
    let mut owners = Owners::new(replay, level);
    let mut grown = Vec::new();
    for (stacks, held) in course.held(replay) {
        if !matches!(held.place, Place::Forward | Place::Elsewhere) {
            continue;
        }
        if let Some(growth) = course.growth(stacks.py, held, failed) {
            grown.push(Grown {
                owner: owners.of(stacks),
                place: held.place,
                live: held.live,
                growth,
                first: held.first,
            });
        }
    }
    let sum: u64 = grown.iter().map(|of| of.live.bytes).sum();
    if !notable(sum, found.live, GROWN) {
        return false;
    }
    found.bytes = sum;
    found.blocks = grown.iter().map(|of| of.live.blocks).sum();
    let Some(main) = main(&grown) else {
        return false;
    };
    found.rounds = (main.growth.rounds, main.growth.is_loop);
    found.per_round = grown.iter().map(per_round).sum();
    found.most = Some(named(replay, &main.owner));
    let of_graphs = |of: &&Grown| of.place == Place::Forward;
    let in_forward: u64 = grown.iter().filter(of_graphs).map(|of| of.live.bytes).sum();
    // A kept graph has several tensors of each round: those of its layers, or its input and its result.
    let is_graph = found.nodes != Some(0)
        && main.growth.is_loop
        && in_forward > 0
        && found.blocks >= 2 * main.growth.rounds.saturating_sub(2)
        && grown.len() > 1;
    found.kind = match is_graph {
        _ if main.growth.last.blocks <= main.growth.first.blocks + 1 => CauseKind::Lengthened,
        true if 2 * main.growth.with_backward > main.growth.rounds => CauseKind::KeptGraphs,
        true => CauseKind::NoGrad,
        false => CauseKind::KeptTensors,
    };
    let line = match found.kind {
        CauseKind::KeptGraphs | CauseKind::NoGrad => {
            let lines: Vec<Grows<Line>> = grown.iter().map(|of| of.grows(replay)).collect();
            holder(&lines, main.growth.rounds).map(|of| (of.line.clone(), of.blocks))
        }
        _ => found.most.clone().map(|line| (line, found.blocks)),
    };
    if let Some((line, blocks)) = line {
        (found.line, found.blocks) = (Some(line), blocks);
    }
    true
}

/// The largest stack of the line with most of the growth.
fn main(grown: &[Grown]) -> Option<&Grown> {
    let mut lines: BTreeMap<&Owner, u64> = BTreeMap::new();
    for of in grown {
        *lines.entry(&of.owner).or_default() += of.live.bytes;
    }
    grown
        .iter()
        .max_by_key(|of| (lines.get(&of.owner), of.live.bytes))
}

fn per_round(of: &Grown) -> u64 {
    let (first, last) = (of.growth.first, of.growth.last);
    let bytes = last.bytes.saturating_sub(first.bytes);
    bytes / last.round.saturating_sub(first.round).max(1)
}

impl Grown {
    fn grows(&self, replay: &Replay) -> Grows<Line> {
        Grows {
            line: named(replay, &self.owner),
            bytes_per_round: per_round(self),
            blocks: self.live.blocks,
            first: self.first.0,
        }
    }
}

/// Finds the largest part if nothing grew.
fn largest(
    replay: &Replay,
    course: &Course,
    failure: &OutOfMemory,
    level: Level,
    found: &mut Found,
) {
    let mut owners = Owners::new(replay, level);
    let mut places: BTreeMap<Place, Figure> = BTreeMap::new();
    let mut lines: BTreeMap<(Place, Owner), Figure> = BTreeMap::new();
    for (stacks, held) in course.held(replay) {
        *places.entry(held.place).or_default() += held.live;
        *lines.entry((held.place, owners.of(stacks))).or_default() += held.live;
    }
    let asked = match failure.event.flags.contains(EventFlags::WORKSPACE) {
        true => Place::Workspace,
        false => place(&replay.names, failure.span_context.stacks),
    };
    let most = places.iter().max_by_key(|(_, figure)| figure.bytes);
    let most = most.map_or(Place::Elsewhere, |(place, _)| *place);
    let first_step = asked == Place::Optimizer && failure.span_context.steps == 0;
    let is_large = notable(failure.event.bytes, found.live, GROWN);
    let place = match asked {
        Place::Optimizer if first_step => Place::Optimizer,
        Place::Workspace if is_large => Place::Workspace,
        _ => most,
    };
    found.kind = match place {
        Place::Optimizer => CauseKind::OptimizerState,
        Place::Workspace => CauseKind::Workspaces,
        Place::Forward => CauseKind::Activations,
        Place::SetUp => CauseKind::Model,
        Place::Backward | Place::Elsewhere => CauseKind::Largest,
    };
    let figure = places.get(&place).copied().unwrap_or_default();
    (found.bytes, found.blocks) = (figure.bytes, figure.blocks);
    let of_place = lines.iter().filter(|((of, _), _)| *of == place);
    let line = of_place.min_by_key(|(_, figure)| Reverse(figure.bytes));
    found.most = line.map(|((_, owner), _)| named(replay, owner));
    if found.kind == CauseKind::Largest
        && let Some((_, figure)) = line
    {
        (found.bytes, found.blocks) = (figure.bytes, figure.blocks);
    }
    found.line = found.most.clone();
}
