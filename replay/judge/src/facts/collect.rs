//! Collects the facts from the replay and from what was followed.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use gpumem_capture::{EventFlags, Level, StackId};
use gpumem_replay::attribution::{
    Owner, PYTORCH_ALLOCATOR, Split, caller_of, is_in_foreach, library, owner,
};
use gpumem_replay::{Backing, Category, Figure, KeyId, Replay, StackKey, ThreadPhase};
use rustc_hash::FxHashSet;

use super::{Alike, Copied, Live, Most, New, Outside, Part, Request, line_of};
use crate::follow::Follow;
use crate::path::Path;
use crate::rounds::Loop;

pub(super) fn live(replay: &Replay, follow: &Follow) -> Vec<Live> {
    let row = replay
        .levels
        .get(&(follow.failure.event.device, follow.level));
    let blocks = row.into_iter().flat_map(|row| row.live_blocks());
    let mut all: Vec<Live> = blocks
        .map(|(address, block)| Live {
            address,
            block,
            category: replay.stacks(block.key).purpose.category(),
        })
        .collect();
    all.sort_unstable_by_key(|of| of.block.seq);
    all
}

pub(super) fn total(replay: &Replay, follow: &Follow) -> (Option<u64>, bool) {
    let device = follow.failure.event.device;
    let card = replay
        .names
        .devices
        .get(&device)
        .map(|card| card.total_bytes);
    match replay.limit_of(device) {
        Some(limit) => (Some(limit), true),
        None => (card, false),
    }
}

/// After so many steps, each forward of the training has had a backward.
const TRAINED: u64 = 2;

pub(super) fn request(replay: &Replay, follow: &Follow, path: &Path) -> Request {
    let failure = &follow.failure;
    let event = &failure.event;
    let stacks = failure.span_context.stacks;
    let histories = |is_same: &dyn Fn(StackKey) -> bool| {
        let same = || {
            follow
                .histories()
                .filter(|(key, _)| is_same(replay.stacks(*key)))
        };
        let largest = same().map(|(_, of)| of.largest).max();
        (largest, same().map(|(_, of)| of.allocations).sum::<u64>())
    };
    // The native stack of a failure is another one: it ends where the framework reports it.
    let is_same = |of: StackKey| stacks.py != StackId::NONE && of.py == stacks.py;
    let mut before = histories(&is_same);
    let of_line = line_of(replay, stacks, event.level);
    if before.0.is_some_and(|largest| event.bytes / 2 >= largest) {
        // Other operators of the line may have needed as much.
        before = histories(&|of| line_of(replay, of, follow.level) == of_line);
    }
    Request {
        bytes: event.bytes,
        seq: failure.seq,
        level: event.level,
        owner: owner(&replay.names, stacks, event.level),
        stacks,
        refused: follow.refused,
        was_refused: failure.was_refused(),
        has_no_size: event.level == Level::PHYSICAL && event.bytes == 0,
        is_workspace: event.flags.contains(EventFlags::WORKSPACE),
        in_foreach: is_in_foreach(&replay.names, stacks.py),
        in_forward: path.in_forward(),
        is_without_backward: path.in_forward()
            && !path.is_backward
            && failure.span_context.steps >= TRAINED
            && !follow.rounds.backwards().any(|of| of.site() == path.site()),
        in_backward: replay.names.backwards.contains_key(&stacks.py)
            || stacks.purpose.phase() == ThreadPhase::Backward,
        largest_before: before.0,
        allocations_before: before.1,
        in_copy: caller_of(&replay.names, stacks.py, super::COPY).is_some(),
        threads: threads(replay, follow, stacks),
    }
}

/// The threads that made parameters with a stack, if most of these are live.
fn threads(replay: &Replay, follow: &Follow, stacks: StackKey) -> u32 {
    let all = follow.histories();
    let same = all.filter(|(key, _)| replay.stacks(*key).py == stacks.py);
    let all = same.map(|(_, of)| (2 * of.freed < of.allocations).then_some(of.threads));
    let all = all.reduce(|all, of| Some(all? | of?)).flatten();
    let all = all.filter(|_| super::makes_weights(&replay.names, stacks.py));
    all.map_or(0, u64::count_ones)
}

/// The figures by what they are of, the largest first.
pub(crate) fn sums<K: Ord>(all: impl Iterator<Item = (K, Figure)>) -> Vec<(K, Figure)> {
    let mut sums: BTreeMap<K, Figure> = BTreeMap::new();
    all.for_each(|(of, figure)| *sums.entry(of).or_default() += figure);
    let mut sums: Vec<(K, Figure)> = sums.into_iter().collect();
    sums.sort_by_key(|(_, figure)| Reverse((figure.bytes, figure.blocks)));
    sums
}

/// Live memory by stack.
pub(super) fn by_stack(live: &[Live]) -> Vec<(KeyId, Figure)> {
    sums(live.iter().map(|of| (of.block.key, of.figure())))
}

pub(super) fn parts(replay: &Replay, follow: &Follow, by_stack: &[(KeyId, Figure)]) -> Vec<Part> {
    let parts = by_stack.iter().map(|(key, figure)| {
        let stacks = replay.stacks(*key);
        let owner = line_of(replay, stacks, follow.level);
        ((owner, stacks.purpose.category()), *figure)
    });
    let part = |((owner, category), figure)| Part {
        owner,
        category,
        figure,
    };
    sums(parts).into_iter().map(part).collect()
}

/// The line with most of the live memory, if one has.
pub(super) fn most(
    replay: &Replay,
    follow: &Follow,
    parts: &[Part],
    by_stack: &[(KeyId, Figure)],
) -> Option<Most> {
    let whole = parts.iter().map(|part| part.figure.bytes).sum();
    let lines = sums(parts.iter().map(|part| (&part.owner, part.figure)));
    let (owner, figure) = lines.into_iter().next()?;
    let line = owner
        .line()
        .filter(|_| Split::is_due(figure.bytes, whole))?;
    let of_line = by_stack.iter().filter_map(|(key, figure)| {
        let stacks = replay.stacks(*key);
        (line_of(replay, stacks, follow.level) == *owner).then_some((stacks, *figure))
    });
    let split = Split::of(&replay.names, line, &of_line.collect::<Vec<_>>());
    Some(Most {
        owner: owner.clone(),
        figure,
        split,
    })
}

/// Driver memory of the device that is not PyTorch's.
pub(super) fn outside(replay: &Replay, follow: &Follow) -> Vec<Outside> {
    let device = follow.failure.event.device;
    let tensors = replay.levels.get(&(device, Level::TENSOR));
    let mut starts: Vec<u64> = tensors
        .into_iter()
        .flat_map(|row| row.live_blocks().map(|(address, _)| address))
        .collect();
    starts.sort_unstable();
    let row = replay.levels.get(&(device, Level::DRIVER));
    let blocks = row.into_iter().flat_map(|row| row.live_blocks());
    let all = blocks.filter_map(|(address, block)| {
        let stacks = replay.stacks(block.key);
        let library = library(&replay.names, stacks, Level::DRIVER);
        let first = starts.partition_point(|start| *start < address);
        let end = address.saturating_add(block.bytes);
        let has_tensor = starts.get(first).is_some_and(|start| *start < end);
        let is_outside = !has_tensor
            && library.as_deref() != Some(PYTORCH_ALLOCATOR)
            && Backing::of(block.flags) != Backing::Unknown;
        let owner = || line_of(replay, stacks, Level::DRIVER);
        is_outside.then(|| ((owner(), library), Figure::block(block.bytes)))
    });
    let outside = |((owner, library), figure)| Outside {
        owner,
        library,
        figure,
    };
    sums(all).into_iter().map(outside).collect()
}

/// The least number of tensors of one size.
const ALIKE: u64 = 2;

pub(super) fn alike(replay: &Replay, follow: &Follow, live: &[Live]) -> Option<Alike> {
    let bytes = follow.failure.event.bytes;
    if follow.level != Level::TENSOR
        || bytes < 1 << 20
        || follow.failure.event.level != Level::TENSOR
    {
        return None;
    }
    // A block may be larger than its request by rounding.
    let is = |size: u64, of: u64| size >= of && size - of <= of / 64;
    let counts = |of: &&Live| {
        let is_model = matches!(
            of.category,
            Category::Parameter | Category::OptimizerState | Category::Gradient
        );
        !is_model && (is(of.block.bytes, bytes) || is(of.block.bytes, bytes / 2))
    };
    let owner = |of: &Live| line_of(replay, replay.stacks(of.block.key), follow.level);
    let lines = sums(
        live.iter()
            .filter(counts)
            .map(|of| (owner(of), of.figure())),
    );
    let figure: Figure = lines.iter().map(|(_, figure)| *figure).sum();
    (figure.blocks >= ALIKE).then_some(Alike {
        bytes,
        figure,
        lines,
    })
}

/// The least rounds before what is new counts.
const SETTLED: u64 = 4;

pub(super) fn new(replay: &Replay, follow: &Follow, path: &Path, live: &[Live]) -> Option<New> {
    let loops = follow.rounds.loops().iter();
    // Calls of one forward may be a loop within it.
    let is_loop = |of: &&Loop| !of.is_line && !of.is_one_call() && of.contains(path);
    let around = loops.filter(|of| of.round() >= SETTLED).filter(is_loop);
    let innermost = around.max_by_key(|of| (of.depth, of.first))?;
    let since = innermost
        .starts()
        .iter()
        .find(|start| start.round + 1 >= innermost.round())?
        .seq;
    let path = |key: KeyId| follow.rounds.known_path(replay.stacks(key).py);
    // A line that ran before with another module is not new.
    let older = follow.histories().filter(|(_, of)| of.first < since);
    let older: FxHashSet<&Path> = older.filter_map(|(key, _)| path(key)).collect();
    let counts = |of: &&Live| {
        // Optimizer state is allocated once, by lines that ran before for other parameters.
        let is_new = || path(of.block.key).is_none_or(|path| !older.contains(path));
        of.block.seq >= since && (of.category == Category::OptimizerState || is_new())
    };
    let owner = |of: &Live| line_of(replay, replay.stacks(of.block.key), follow.level);
    let of_line = |of: &Live| ((owner(of), of.category), of.figure());
    let lines = sums(live.iter().filter(counts).map(of_line)).into_iter();
    let lines: Vec<_> = lines
        .map(|((owner, category), of)| (owner, category, of))
        .collect();
    let figure: Figure = lines.iter().map(|(_, _, figure)| *figure).sum();
    (figure.bytes > 0).then_some(New {
        round: innermost.round(),
        figure,
        lines,
    })
}

/// Lines that hold the same amount as another line, outside of forwards and of an optimizer.
pub(super) fn copies(
    replay: &Replay,
    follow: &Follow,
    parts: &[Part],
    live: &[Live],
) -> Vec<Copied> {
    let can = |part: &&Part| {
        matches!(
            part.category,
            Category::Parameter | Category::Other | Category::Input
        ) && part.figure.bytes >= 1 << 20
    };
    let all: Vec<&Part> = parts.iter().filter(can).collect();
    // Of two tensors of one size that are no parameters, one is not a copy of the other.
    let is_model = |part: &Part| part.category == Category::Parameter;
    // The layers of a model that is being made.
    let request = line_of(replay, follow.failure.span_context.stacks, follow.level);
    let is_made = |of: &Owner| of.function().ends_with("__init__");
    let is_same = |a: &Part, b: &Part| {
        (is_model(a) || is_model(b))
            && a.owner != b.owner
            && !(is_made(&request) && is_made(&a.owner) && is_made(&b.owner))
            && a.figure.bytes.abs_diff(b.figure.bytes) <= b.figure.bytes / 64
    };
    let has_twin = |part: &&&Part| all.iter().any(|other| is_same(part, other));
    let twins = all.iter().filter(has_twin);
    twins
        .map(|part| Copied {
            owner: part.owner.clone(),
            figure: part.figure,
            blocks: blocks_of(replay, follow, part, live),
        })
        .collect()
}

pub(super) fn foreach(replay: &Replay, by_stack: &[(KeyId, Figure)]) -> u64 {
    let is_temporary = |stacks: StackKey| {
        let is_state = stacks.purpose.category() == Category::OptimizerState;
        !is_state && is_in_foreach(&replay.names, stacks.py)
    };
    let all = by_stack.iter();
    let temporary = all.filter(|(key, _)| is_temporary(replay.stacks(*key)));
    temporary.map(|(_, figure)| figure.bytes).sum()
}

/// Address and bytes of each block of a line and category.
fn blocks_of(replay: &Replay, follow: &Follow, part: &Part, live: &[Live]) -> Vec<(u64, u64)> {
    let is_of = |of: &&Live| {
        of.category == part.category
            && line_of(replay, replay.stacks(of.block.key), follow.level) == part.owner
    };
    let of_line = live.iter().filter(is_of);
    of_line.map(|of| (of.address, of.block.bytes)).collect()
}
