//! What is true of the rounds of which memory is live.

use std::collections::BTreeSet;

use gpumem_capture::Seq;
use gpumem_replay::attribution::Owner;
use gpumem_replay::{KeyId, Replay, ThreadPhase};
use rustc_hash::FxHashMap;

use super::Of;
use crate::facts::line_of;
use crate::follow::Follow;
use crate::path::{Path, Step};
use crate::rounds::Loop;

/// How far apart the rounds are, up to the one before `now`, if that is even.
pub(super) fn evenly(rounds: &BTreeSet<u64>, now: u64) -> Option<u64> {
    let all: Vec<u64> = rounds.iter().copied().collect();
    let each = all.last()? - all.get(all.len().checked_sub(2)?)?;
    let is_even = all.windows(2).all(|two| two[1] - two[0] == each);
    (is_even && now - all.last()? <= each).then_some(each)
}

/// How many of the rounds had a backward.
pub(super) fn with_backward(of: &Loop, rounds: &BTreeSet<u64>) -> u64 {
    let starts = of.starts();
    let had = |round: &&u64| {
        let from = &starts[starts.partition_point(|start| start.round < **round)..];
        let own = from.first().filter(|start| start.round == **round);
        let after = from.iter().find(|start| start.round > **round);
        after.is_some_and(|after| after.backwards > own.map_or(0, |start| start.backwards))
    };
    rounds.iter().filter(had).count() as u64
}

/// Whether what is kept are graphs. A graph keeps what a forward makes on its way, with gradients on. Where a backward
/// has consumed the graph, only results are kept.
pub(super) fn is_graph(
    replay: &Replay,
    follow: &Follow,
    of: &Loop,
    stacks: &FxHashMap<KeyId, Of>,
) -> bool {
    let path_of = |key: KeyId| follow.rounds.known_path(replay.stacks(key).py);
    let can = |key: KeyId| {
        let purpose = replay.stacks(key).purpose;
        !purpose.is_no_grad() && purpose.phase() == ThreadPhase::Outside
    };
    let of_forward = |key: KeyId| path_of(key).is_some_and(Path::in_forward) && can(key);
    let mut kept: Vec<KeyId> = stacks
        .keys()
        .copied()
        .filter(|key| of_forward(*key))
        .collect();
    kept.sort_unstable();
    let per_round: u64 = kept.iter().map(|key| stacks[key].newest.blocks).sum();
    // The same forward, from the same place, whose graph a backward consumed.
    let sites: Vec<_> = kept.iter().filter_map(|key| path_of(*key)).collect();
    let consumed = follow.histories().filter(|(key, history)| {
        history.by_backward > 0
            && !stacks.contains_key(key)
            && of_forward(*key)
            && path_of(*key).is_some_and(|path| {
                of.contains(path) && sites.iter().any(|site| site.site() == path.site())
            })
    });
    if !kept.is_empty() {
        return per_round >= 2 && consumed.count() == 0;
    }
    // The loop's graphs are used, and what is kept is made outside of them.
    let mut used = follow.histories().filter(|(key, history)| {
        history.by_backward > 0
            && !stacks.contains_key(key)
            && path_of(*key).is_some_and(|path| path.in_forward() && of.contains(path))
    });
    if used.next().is_some() {
        return false;
    }
    // Without modules: a function that has returned had several blocks of one call in each round, or a line has blocks
    // of several calls, of which one name can hold the last.
    let mut calls: FxHashMap<Owner, u64> = FxHashMap::default();
    for (key, held) in stacks.iter().filter(|(key, _)| can(**key)) {
        let is_called = path_of(*key).is_some_and(|path| path.steps.len() > of.depth + 1);
        let line = line_of(replay, replay.stacks(*key), follow.level);
        let several = is_called && held.newest.blocks > 1;
        *calls.entry(line).or_default() += 1 + u64::from(several);
    }
    calls.values().any(|calls| *calls > 1)
}

/// Whether a backward ran through forwards of the same places in the loop.
pub(super) fn was_used(
    replay: &Replay,
    follow: &Follow,
    of: &Loop,
    stacks: &FxHashMap<KeyId, Of>,
) -> bool {
    let sites = stacks
        .keys()
        .filter_map(|key| follow.rounds.known_path(replay.stacks(*key).py))
        .filter(|path| !path.is_backward && path.in_forward());
    let sites: BTreeSet<&[Step]> = sites.map(Path::site).collect();
    let mut backwards = follow.rounds.backwards();
    backwards.any(|path| of.contains(path) && sites.contains(path.site()))
}

/// Whether the line with most memory has that of all newest rounds, and has freed that of the rounds before.
pub(super) fn is_window(
    replay: &Replay,
    follow: &Follow,
    stacks: &FxHashMap<KeyId, Of>,
    now: u64,
) -> bool {
    let most = stacks.iter().max_by_key(|(_, held)| held.figure.bytes);
    most.is_some_and(|(key, held)| {
        let first = held.rounds.first().copied().unwrap_or(now);
        let all = held.rounds.len() as u64;
        let older = first.saturating_sub(1);
        now - first <= all + 1 && older > 2 && follow.history_of(replay, *key).freed >= older
    })
}

/// Whether the loop was run before by an outer loop, with at least as many rounds, of which nothing is left.
pub(super) fn is_reset(of: &Loop, outer: Option<&Loop>, rounds: &BTreeSet<u64>) -> bool {
    let Some(outer) = outer else {
        return false;
    };
    let round_at = |seq: Seq| {
        let after = of.starts().partition_point(|start| start.seq < seq);
        of.starts()
            .get(after)
            .map_or(of.round(), |start| start.round)
    };
    let begins: Vec<u64> = outer
        .starts()
        .iter()
        .map(|start| round_at(start.seq))
        .collect();
    let Some(run) = begins.last().copied() else {
        return false;
    };
    let lengths = begins.windows(2).map(|pair| pair[1] - pair[0]);
    let longest = lengths.chain(begins.first().copied()).max().unwrap_or(0);
    rounds.first().is_some_and(|first| *first >= run) && of.round() - run <= longest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rounds_are_evenly_apart_up_to_the_newest() {
        let of = |rounds: &[u64], now| evenly(&rounds.iter().copied().collect(), now);
        assert_eq!(of(&[405, 406, 407], 408), Some(1));
        assert_eq!(of(&[10, 20, 30], 34), Some(10));
        assert_eq!(of(&[10, 20, 30], 41), None, "the newest is not there");
        assert_eq!(of(&[10, 20, 31], 34), None);
        assert_eq!((of(&[3], 4), of(&[], 4)), (None, None));
    }
}
