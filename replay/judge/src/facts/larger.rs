//! Lines whose tensors become larger, and tensors that are larger than all before.

use std::collections::BTreeMap;

use gpumem_replay::attribution::Owner;
use gpumem_replay::{Category, Figure, KeyId, Replay, ThreadPhase};
use rustc_hash::FxHashMap;

use super::collect::sums;
use super::{Live, line_of};
use crate::follow::Follow;
use crate::path::Path;

/// A line whose tensors become larger, while their number stays the same.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Longer {
    /// The line.
    pub owner: Owner,
    /// Its live tensors.
    pub figure: Figure,
    /// Their addresses and bytes.
    pub blocks: Vec<(u64, u64)>,
    /// How many times those of its largest stack grew.
    pub rises: u64,
    /// The smallest and the largest of these rises.
    pub rise: (u64, u64),
    /// Whether a forward or a backward computes it, with gradients: it grows with what that is given.
    pub is_computed: bool,
}

impl Longer {
    /// Whether a request of this size may be for its next tensor, which is a little larger: `torch.cat((old, part))`.
    pub(crate) fn may_be_next(&self, request: u64) -> bool {
        request
            <= self
                .figure
                .bytes
                .saturating_add(self.rise.1.saturating_mul(2))
    }
}

/// A line whose newest tensor is much larger than all before.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Larger {
    /// The line.
    pub owner: Owner,
    /// The bytes of the tensor, and of the largest one before.
    pub bytes: u64,
    /// See `bytes`.
    pub before: u64,
    /// How many it had allocated.
    pub allocations: u64,
}

/// How many times as large as any of its line before a tensor is that is much larger.
const TIMES: u64 = 2;
/// The least allocations of a line of which one can be much larger.
const SEVERAL: u64 = 4;

impl Larger {
    pub(crate) fn is_much(&self) -> bool {
        self.allocations >= SEVERAL && self.bytes / TIMES >= self.before
    }
}

/// How many rises in a row show a tensor that becomes longer, and how many if they are of different sizes.
const RISES: u64 = 2;
const UNEVEN: u64 = 8;

pub(super) fn longer(replay: &Replay, follow: &Follow, live: &[Live]) -> Vec<Longer> {
    let key_of = |of: &Live| replay.key_of_all_categories(of.block.key);
    let by_key = sums(live.iter().map(|of| (key_of(of), of.figure())));
    let may = |(key, figure): &(KeyId, Figure)| {
        let history = follow.history_of(replay, *key);
        let (least, most) = history.rise;
        // The old and the new tensor of each layer.
        let of_a_rise = history.since.div_ceil(history.rises + 1);
        let is_replaced = figure.blocks <= 2 * of_a_rise;
        let is_uneven = most > least.saturating_mul(4) && history.rises < UNEVEN;
        history.rises >= RISES && is_replaced && !is_uneven && !history.is_outlier()
    };
    let by_key: Vec<(KeyId, Figure)> = by_key.into_iter().filter(may).collect();
    if by_key.is_empty() {
        return Vec::new();
    }
    let mut of_keys: FxHashMap<KeyId, Vec<&Live>> = FxHashMap::default();
    of_keys.extend(by_key.iter().map(|(key, _)| (*key, Vec::new())));
    for of in live {
        if let Some(of_key) = of_keys.get_mut(&key_of(of)) {
            of_key.push(of);
        }
    }
    // Each layer of a network has separate stacks.
    let mut lines: BTreeMap<(Owner, bool), Longer> = BTreeMap::new();
    for (key, figure) in by_key {
        let (history, of_key) = (follow.history_of(replay, key), &of_keys[&key]);
        let stacks = replay.stacks(key);
        let path = follow.rounds.known_path(stacks.py);
        let is_in_forward = path.is_some_and(Path::in_forward);
        let is_backward = replay.names.backwards.contains_key(&stacks.py);
        // A backward runs without gradients.
        let is_computed = of_key.iter().any(|of| {
            let purpose = replay.stacks(of.block.key).purpose;
            let is_kept = is_in_forward || of.category == Category::Activation;
            is_backward
                || purpose.phase() == ThreadPhase::Backward
                || is_kept && !purpose.is_no_grad()
        });
        let owner = line_of(replay, stacks, follow.level);
        let of = lines.entry((owner.clone(), is_computed)).or_insert(Longer {
            owner,
            figure: Figure::default(),
            blocks: Vec::new(),
            rises: history.rises,
            rise: history.rise,
            is_computed,
        });
        of.figure += figure;
        of.blocks
            .extend(of_key.iter().map(|of| (of.address, of.block.bytes)));
    }
    lines.into_values().collect()
}

/// The least percentage of live bytes that the tensor has.
const LEAST: u64 = 10;

pub(super) fn larger(replay: &Replay, follow: &Follow, live: &[Live]) -> Option<Larger> {
    let all: u64 = live.iter().map(|of| of.block.bytes).sum();
    // The first one: others are computed from it.
    let mut large = live.iter().filter(|of| of.block.bytes >= all / 100 * LEAST);
    large.find_map(|of| larger_of(replay, follow, of))
}

/// The line of a tensor, if that is much larger than all before.
fn larger_of(replay: &Replay, follow: &Follow, of: &Live) -> Option<Larger> {
    let is_model = of.category == Category::Parameter;
    let history = follow.history_of(replay, of.block.key);
    if is_model || !history.is_outlier() {
        return None;
    }
    let owner = line_of(replay, replay.stacks(of.block.key), follow.level);
    let mut larger = Larger {
        bytes: history.last,
        before: history.before,
        allocations: history.allocations,
        owner,
    };
    // Other operators of the line.
    for key in (0..follow.keys.len() as u32).map(KeyId) {
        let of = follow.keys[key.0 as usize];
        let is_same =
            of.newest == history.newest || of.first > history.newest || of.allocations == 0;
        if !is_same && line_of(replay, replay.stacks(key), follow.level) == larger.owner {
            let before = if of.is_outlier() {
                of.before
            } else {
                of.largest
            };
            larger.before = larger.before.max(before);
            larger.allocations += of.allocations;
        }
    }
    larger.is_much().then_some(larger)
}
