//! Rules about free memory of the pool.

use gpumem_capture::Level;
use gpumem_replay::ThreadPhase;

use super::{NOTABLE, notable, verdict};
use crate::cache::Cache;
use crate::facts::Facts;
use crate::verdict::{Certainty, Kind, Verdict};

/// Free memory that this request cannot use.
pub(super) fn unusable(facts: &Facts) -> Option<Verdict> {
    let follows = |kind, bytes| Some(verdict(kind, Certainty::Follows, bytes));
    let (free, need) = (facts.card.free()?, facts.needed());
    let cached = facts.reserved.saturating_sub(facts.tensors);
    if facts.request.level != Level::TENSOR {
        // Kernel code needs little, and gets none of what is free within segments.
        let whole = facts.cache.as_ref().map_or(cached, Cache::whole);
        let free_in_pool = if facts.request.has_no_size {
            whole
        } else {
            cached
        };
        let is_notable = notable(free_in_pool, facts.reserved, NOTABLE);
        let would = free.saturating_add(cached) >= need;
        // Where tensors have much of it, they are the cause.
        let is_other = is_needed_again(facts)
            && (!facts.request.has_no_size || notable(facts.tensors, facts.reserved, FULL));
        return match is_notable && would && !is_other {
            true => follows(Kind::Cached, cached),
            false => None,
        };
    }
    if !facts.request.was_refused && free >= need {
        return follows(Kind::OwnLimit, free);
    }
    let cache = facts.cache.as_ref()?;
    let with = |bytes: u64| free.saturating_add(bytes) >= need;
    let has = |bytes: u64| notable(bytes, facts.reserved, NOTABLE);
    let [usable, streams, pools] =
        [cache.usable, cache.other_streams, cache.other_pools].map(|of| of.bytes);
    let all = usable.saturating_add(streams).saturating_add(pools);
    if with(all) && has(streams) && streams > usable.max(pools) {
        return follows(Kind::OtherStreams, streams);
    }
    if with(all) && has(pools) && pools > usable {
        return Some(Verdict {
            holders: of_graphs(facts),
            ..verdict(Kind::PrivatePools, Certainty::Follows, pools)
        });
    }
    if with(cache.usable.bytes) {
        // One large block that is not large enough is a lack of memory.
        let in_pieces = cache.usable.largest <= cache.usable.bytes / 2;
        let is_short = cache.usable.largest < facts.request.bytes;
        let fragmented = is_short && in_pieces && has(cache.usable.bytes);
        let certainty = match shown_by_replay(facts) {
            true => Certainty::Proven,
            false => Certainty::Follows,
        };
        return fragmented.then(|| verdict(Kind::Fragmentation, certainty, cache.usable.bytes));
    }
    None
}

/// The least percentage of the pool that live tensors have, to be why it is too large.
const FULL: u64 = 50;
/// The least percentage of the pool that the tensors of a step needed, so that the next step needs the pool, too.
const AGAIN: u64 = 80;

/// Whether the next step needs what is free in the pool now. Before the first one has ended, that is known once its backward
/// runs. What a forward needed, each later one needs.
pub(crate) fn is_needed_again(facts: &Facts) -> bool {
    let (peaks, request) = (&facts.peaks, &facts.request);
    let is_in_step =
        request.in_backward || request.stacks.purpose.phase() == ThreadPhase::Optimizer;
    let is_known = peaks.steps > 0 || is_in_step;
    is_known && notable(peaks.before.max(peaks.now), facts.reserved, AGAIN)
        || notable(peaks.forwards, facts.reserved, AGAIN)
}

/// Who keeps what grows with each round, where private pools do: each CUDA graph has a pool, and tensors in it.
fn of_graphs(facts: &Facts) -> Vec<usize> {
    let growth = facts.kept.iter().filter(|kept| kept.is_growth);
    let most = growth.max_by_key(|kept| kept.figure.bytes);
    let holders = most.zip(facts.holders.as_ref());
    holders.map_or_else(Vec::new, |(kept, all)| all.of(&kept.blocks))
}

/// Whether an exact replay has the failure, and other settings of the allocator serve the request.
fn shown_by_replay(facts: &Facts) -> bool {
    let replays = facts.replays.as_ref();
    replays.is_some_and(|of| of.is_exact && of.remedy().is_some())
}
