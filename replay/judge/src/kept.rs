//! What earlier rounds of a loop still hold.

mod rounds;

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use gpumem_capture::Seq;
use gpumem_replay::attribution::Owner;
use gpumem_replay::{Block, Category, Figure, KeyId, Replay};
use rustc_hash::FxHashMap;

use crate::facts::{Live, begins, is_the_programs, line_at, line_of, makes_weights};
use crate::follow::Follow;
use crate::growth::KeptEach;
use crate::kept::rounds::{evenly, is_graph, is_reset, is_window, was_used, with_backward};
use crate::path::{Path, Step};
use crate::rounds::Loop;

/// A line with the memory that it allocated in earlier rounds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeptLine {
    /// The line.
    pub owner: Owner,
    /// Its live memory of earlier rounds.
    pub figure: Figure,
    /// The earlier rounds that have any.
    pub rounds: u64,
    /// Whether the line is in the forward of a module.
    pub in_forward: bool,
    /// Whether gradients were off.
    pub is_no_grad: bool,
}

/// The memory of earlier rounds of a loop that runs, live at a failure.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Kept {
    /// The line at which a round begins.
    pub begins: Option<Owner>,
    /// The line that calls the forward of most of the memory, if that is within one.
    pub made_at: Option<Owner>,
    /// The number of the round that runs.
    pub rounds: u64,
    /// The number of earlier rounds of which memory is live.
    pub of: u64,
    /// They are each of this many rounds, up to the newest; `None` if they are not evenly apart.
    pub each: Option<u64>,
    /// Whether each allocation of one line counts as a round.
    pub is_line: bool,
    /// Whether all allocations of a round are within one call.
    pub is_one_call: bool,
    /// Whether it is parameters, gradients and optimizer state: a model for each round.
    pub of_models: bool,
    /// The categories of the memory.
    pub categories: BTreeSet<Category>,
    /// Whether the memory becomes more with each round. Otherwise only the round before holds some.
    pub is_growth: bool,
    /// Live bytes and blocks of earlier rounds.
    pub figure: Figure,
    /// By line, the largest first.
    pub lines: Vec<KeptLine>,
    /// How many of the kept rounds had a backward.
    pub with_backward: u64,
    /// Whether the memory looks like autograd graphs: what a forward made on its way is kept, not only its result.
    pub is_graph: bool,
    /// Whether blocks of the same stacks were freed by a backward before.
    pub was_consumed: bool,
    /// Whether a backward ran through forwards from the same places.
    pub was_used: bool,
    /// Whether a backward made some of it with gradients on, for another one: `autograd.grad(create_graph=True)`.
    pub is_of_second_order: bool,
    /// Whether gradients were off for most of it.
    pub is_no_grad: bool,
    /// Whether only the request shows that its line comes again: a variable may have the memory until then.
    pub is_until_request: bool,
    /// Whether earlier runs of this loop had as many rounds and left nothing.
    pub is_reset: bool,
    /// Whether older rounds had such memory and it was freed: a store of a fixed length.
    pub is_window: bool,
    /// Address and bytes of each block.
    pub(crate) blocks: Vec<(u64, u64)>,
    /// The line whose tensor comes last in each round and is small: a tensor keeps alive what was made before it.
    pub last: Option<KeptLine>,
}

/// The blocks of a stack in a loop.
#[derive(Debug, Default)]
struct Of {
    figure: Figure,
    /// Rounds before the newest one, with live blocks.
    rounds: BTreeSet<u64>,
    /// Blocks and bytes of the newest of these.
    newest: Figure,
    /// The newest block of earlier rounds.
    last: Seq,
    /// Address and bytes of each block.
    blocks: Vec<(u64, u64)>,
}

/// PyTorch's caching allocator rounds requests up to multiples of this, in bytes.
const ROUNDED: u64 = 512;
/// The least earlier rounds that show growth.
const ROUNDS: usize = 2;

/// Memory of each loop around a request, the outermost loop first.
pub(crate) fn kept(replay: &Replay, follow: &Follow, path: &Path, live: &[Live]) -> Vec<Kept> {
    let mut loops: Vec<&Loop> = follow
        .rounds
        .loops()
        .iter()
        .filter(|of| of.round() > 1 && of.contains(path))
        .filter(|of| is_the_programs(&replay.names, of.code) && !is_recursive(of, path))
        .collect();
    loops.sort_by_key(|of| (of.depth, of.first));
    let mut out = Vec::new();
    for (at, of) in loops.iter().enumerate() {
        let outer = loops[..at].iter().rfind(|outer| outer.encloses(of, path));
        let by = |what| kept_by(replay, follow, of, outer.copied(), live, what);
        let models = by(What::Models);
        let tensors = match models {
            Some(_) => What::Tensors,
            None => What::TensorsAndLeaves,
        };
        out.extend(by(tensors));
        out.extend(models);
    }
    out
}

/// Whether the loop's function calls itself around the request: its calls are no rounds.
fn is_recursive(of: &Loop, path: &Path) -> bool {
    let calls = path.site().iter().filter(|step| step.code == of.code);
    calls.count() > 1
}

/// Whether a loop's rounds compute, rather than make parts of one model.
fn computes(replay: &Replay, follow: &Follow, of: &Loop) -> bool {
    follow.histories().any(|(key, history)| {
        let stack = replay.stacks(key).py;
        let path = follow.rounds.known_path(stack);
        history.allocations + 1 >= of.round()
            && path.is_some_and(|path| of.contains(path))
            && !makes_weights(&replay.names, stack)
    })
}

/// Which memory of a loop counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum What {
    /// Models and their state.
    Models,
    /// All else.
    Tensors,
    /// Also other tensors with a gradient, such as inputs by which a loss is differentiated: each round made its own.
    TensorsAndLeaves,
}

/// Gradients are not: each backward makes new ones, or adds to those of the first round.
fn is_persistent(category: Category) -> bool {
    matches!(
        category,
        Category::Parameter | Category::OptimizerState | Category::Workspace
    )
}

fn kept_by(
    replay: &Replay,
    follow: &Follow,
    of: &Loop,
    outer: Option<&Loop>,
    live: &[Live],
    what: What,
) -> Option<Kept> {
    let of_models = what == What::Models;
    let now = of.round() + u64::from(is_next(replay, follow, of, live));
    let mut stacks: FxHashMap<KeyId, Of> = FxHashMap::default();
    let mut has_parameters = false;
    let mut categories: BTreeMap<KeyId, BTreeSet<Category>> = BTreeMap::new();
    for Live {
        address,
        block,
        category,
    } in live
    {
        let key = replay.key_of_all_categories(block.key);
        let makes_weights = || makes_weights(&replay.names, replay.stacks(key).py);
        let is_leaf =
            what == What::TensorsAndLeaves && *category == Category::Parameter && !makes_weights();
        // A model's gradients are as old as the model, or newer.
        let is_gradient = of_models && *category == Category::Gradient;
        let counts = (is_persistent(*category) && !is_leaf) == of_models || is_gradient;
        if !counts || *category == Category::Workspace {
            continue;
        }
        let path = follow.rounds.known_path(replay.stacks(key).py);
        if !path.is_some_and(|path| of.contains(path)) {
            continue;
        }
        let round = of.round_at(block.seq);
        if round >= now {
            continue;
        }
        has_parameters |= *category == Category::Parameter && makes_weights();
        categories.entry(key).or_default().insert(*category);
        let of = stacks.entry(key).or_default();
        add(of, round, block);
        of.blocks.push((*address, block.bytes));
    }
    let grows = |rounds: &BTreeSet<u64>| {
        let newest = rounds.last().copied().unwrap_or(0);
        let oldest = rounds.first().copied().unwrap_or(0);
        let count = rounds.len();
        count >= ROUNDS && {
            let gap = (newest - oldest).div_ceil(count as u64 - 1);
            newest + 1 + 2 * gap >= now
        }
    };
    // Only the round before: what a name holds until the next round binds it again, and what a forward kept.
    let began = of.newest().map_or(Seq(0), |start| start.seq);
    let is_requested = |key: KeyId| replay.stacks(key).py == follow.failure.span_context.stacks.py;
    let is_previous = |key: &KeyId, held: &Of| {
        let again = is_requested(*key) || follow.history_of(replay, *key).newest >= began;
        let path = follow.rounds.known_path(replay.stacks(*key).py);
        let is_activation =
            path.is_some_and(Path::in_forward) && !replay.stacks(*key).purpose.is_no_grad();
        held.rounds.first() == Some(&(now - 1)) && (again || is_activation)
    };
    // One place may have other modules and go through other native code in each round.
    let path = |key: &KeyId| follow.rounds.known_path(replay.stacks(*key).py);
    let mut by_path: FxHashMap<Option<&Path>, BTreeSet<u64>> = FxHashMap::default();
    for (key, held) in &stacks {
        by_path.entry(path(key)).or_default().extend(&held.rounds);
    }
    let is_growth = by_path.values().any(grows);
    let comes_again = stacks.iter().any(|(key, held)| is_previous(key, held));
    stacks.retain(|key, held| match is_growth {
        _ if of_models => true,
        true => grows(&by_path[&path(key)]),
        false if comes_again => is_previous(key, held),
        false => held.rounds.first() == Some(&(now - 1)),
    });
    let is_used = || {
        let trained = of.newest().is_some_and(|start| start.backwards > 0);
        trained || is_growth && computes(replay, follow, of)
    };
    if stacks.is_empty() || (of_models && !(has_parameters && is_used())) {
        return None;
    }
    let mut rounds: BTreeSet<u64> = BTreeSet::new();
    let mut lines: BTreeMap<Owner, (KeptLine, BTreeSet<u64>, Seq)> = BTreeMap::new();
    let (mut figure, mut no_grad) = (Figure::default(), 0_u64);
    for (key, held) in &stacks {
        let of = replay.stacks(*key);
        let owner = line_of(replay, of, follow.level);
        figure += held.figure;
        if of.purpose.is_no_grad() {
            no_grad += held.figure.bytes;
        }
        rounds.extend(&held.rounds);
        let path = follow.rounds.known_path(of.py);
        let (line, of_line, last) = lines.entry(owner.clone()).or_insert_with(|| {
            let line = KeptLine {
                owner,
                figure: Figure::default(),
                rounds: 0,
                in_forward: path.is_some_and(Path::in_forward),
                is_no_grad: of.purpose.is_no_grad(),
            };
            (line, BTreeSet::new(), Seq(0))
        });
        line.figure += held.figure;
        of_line.extend(&held.rounds);
        *last = (*last).max(held.last);
    }
    let mut all: Vec<(KeptLine, Seq)> = lines
        .into_values()
        .map(|(mut line, rounds, last)| {
            line.rounds = rounds.len() as u64;
            (line, last)
        })
        .collect();
    all.sort_by_key(|(line, _)| Reverse((line.figure.bytes, line.figure.blocks)));
    let each: Vec<KeptEach> = all
        .iter()
        .map(|(line, last)| KeptEach {
            bytes: line.figure.bytes,
            rounds: line.rounds,
            place: last.0,
        })
        .collect();
    let last = KeptEach::holder(&each).map(|at| all[at].0.clone());
    let lines: Vec<KeptLine> = all.into_iter().map(|(line, _)| line).collect();
    Some(Kept {
        begins: begins(&replay.names, of),
        made_at: made_at(replay, follow, &stacks, figure.bytes),
        rounds: now,
        of: rounds.len() as u64,
        each: evenly(&rounds, now),
        is_line: of.is_line,
        is_one_call: of.is_one_call(),
        of_models,
        categories: stacks
            .keys()
            .filter_map(|key| categories.get(key))
            .flatten()
            .copied()
            .collect(),
        is_growth,
        figure,
        with_backward: with_backward(of, &rounds),
        is_graph: is_graph(replay, follow, of, &stacks),
        was_consumed: stacks
            .keys()
            .any(|key| follow.history_of(replay, *key).by_backward > 0),
        was_used: was_used(replay, follow, of, &stacks),
        is_of_second_order: stacks.keys().any(|key| {
            let stacks = replay.stacks(*key);
            let path = follow.rounds.known_path(stacks.py);
            path.is_some_and(|path| path.is_backward) && !stacks.purpose.is_no_grad()
        }),
        is_no_grad: no_grad > figure.bytes / 2,
        is_until_request: !is_growth
            && (!comes_again || stacks.keys().all(|key| is_requested(*key))),
        is_reset: is_reset(of, outer, &rounds),
        is_window: is_window(replay, follow, &stacks, now),
        blocks: stacks
            .values()
            .flat_map(|of| of.blocks.iter().copied())
            .collect(),
        last,
        lines,
    })
}

/// Whether the request would have been the next round of a line: it is as large as the newest one.
fn is_next(replay: &Replay, follow: &Follow, of: &Loop, live: &[Live]) -> bool {
    let failure = &follow.failure;
    let requested = failure.span_context.stacks.py;
    let is_like = |live: &Live| {
        of.round_at(live.block.seq) == of.round()
            && replay.stacks(live.block.key).py == requested
            && live.block.bytes.abs_diff(failure.event.bytes) < ROUNDED
    };
    let path = follow.rounds.known_path(requested);
    of.is_line && path.is_some_and(|path| of.contains(path)) && live.iter().any(is_like)
}

/// The line outside of all forwards that calls the one with most of the memory, if it is more than half of `all`.
fn made_at(
    replay: &Replay,
    follow: &Follow,
    stacks: &FxHashMap<KeyId, Of>,
    all: u64,
) -> Option<Owner> {
    let mut sites: FxHashMap<&[Step], u64> = FxHashMap::default();
    for (key, held) in stacks {
        let path = follow.rounds.known_path(replay.stacks(*key).py);
        if let Some(path) = path.filter(|path| path.in_forward()) {
            *sites.entry(path.site()).or_default() += held.figure.bytes;
        }
    }
    let (site, bytes) = sites.into_iter().max_by_key(|(_, bytes)| *bytes)?;
    // Frames of PyTorch, such as a data loader's, are not the program's lines.
    let step = site
        .iter()
        .rfind(|step| is_the_programs(&replay.names, step.code))?;
    (bytes > all / 2)
        .then(|| line_at(&replay.names, step.code, step.offset))
        .flatten()
}

fn add(of: &mut Of, round: u64, block: &Block) {
    of.figure += Figure::block(block.bytes);
    if of.rounds.last().is_none_or(|newest| *newest < round) {
        of.newest = Figure::default();
    }
    of.rounds.insert(round);
    if of.rounds.last() == Some(&round) {
        of.newest += Figure::block(block.bytes);
    }
    of.last = of.last.max(block.seq);
}
