//! The replay that a recorder runs alongside a bounded capture.

use gpumem_capture::{Record, StateSink};
use rustc_hash::{FxHashMap, FxHashSet};

use crate::ids::KeyId;
use crate::sampling::Sampled;
use crate::serialize::Serialize;
use crate::{Replay, StackKey};

/// The part of the limit that a state shrinks to when it exceeds the limit.
const STAYS: (usize, usize) = (3, 4);
/// Stacks with the newest ids keep their definitions, because their events may still follow.
const NEWEST: u32 = 4096;

/// A replay of all records of a bounded capture, as its [`StateSink`]. Its state fits a limit: stacks that hold
/// nothing, and held nothing at a peak, are evicted, those with the fewest bytes first. If the live blocks alone do not
/// fit, the smallest are merged. Both are counted.
#[derive(Debug)]
pub struct BoundedReplay {
    replay: Replay,
}

impl Default for BoundedReplay {
    fn default() -> Self {
        Self {
            replay: Replay::keeping(),
        }
    }
}

impl BoundedReplay {
    /// The replay so far.
    pub fn replay(&self) -> &Replay {
        &self.replay
    }
}

impl StateSink for BoundedReplay {
    fn take(&mut self, record: Record<'_>) {
        self.replay.feed(record);
    }

    fn state(&mut self, limit: usize, out: &mut Vec<u8>) {
        self.replay.put(out);
        if out.len() <= limit {
            return;
        }
        self.replay
            .levels
            .values_mut()
            .for_each(crate::LevelState::forget_frees);
        let target = limit / STAYS.1 * STAYS.0;
        while out.len() > target {
            let less =
                self.replay.evict_stacks() || (out.len() > limit && self.replay.merge_blocks());
            if !less {
                // If it still does not fit, neither stacks nor blocks are what grew. The drain reports that it cannot
                // write.
                return;
            }
            out.clear();
            self.replay.put(out);
        }
    }
}

impl Replay {
    /// Evicts half of the stacks that nothing refers to, those with the fewest bytes; returns false if no stack can be
    /// evicted.
    fn evict_stacks(&mut self) -> bool {
        let mut bytes: FxHashMap<KeyId, u64> = FxHashMap::default();
        let mut needed = self.needed();
        for ((device, _), state) in &self.levels {
            let clock = self.devices.get(device).map(|device| device.clock);
            for (key, high_water) in state.by_stack() {
                *bytes.entry(key).or_default() += high_water.total().bytes;
                if state.needs(high_water, clock.unwrap_or_default()) {
                    needed.insert(key);
                }
            }
        }
        let all = (0..self.keys.len() as u32).map(KeyId);
        let mut spare: Vec<(u64, KeyId)> = all
            .filter(|key| !needed.contains(key))
            .filter(|key| {
                let stacks = self.stacks(*key);
                ![StackKey::EVICTED, StackKey::default()].contains(&stacks)
                    && !stacks.is_not_sampled()
            })
            .map(|key| (bytes.get(&key).copied().unwrap_or(0), key))
            .collect();
        if spare.is_empty() {
            return false;
        }
        spare.sort_unstable();
        spare.truncate(spare.len().div_ceil(2));
        self.evicted.stacks += spare.len() as u64;
        self.drop_keys(&spare.into_iter().map(|(_, key)| key).collect());
        self.drop_names();
        true
    }

    /// Stacks that are needed for more than their figures.
    fn needed(&mut self) -> FxHashSet<KeyId> {
        let mut needed = FxHashSet::default();
        let mut need = |key: &mut KeyId| {
            needed.insert(*key);
        };
        self.objects.each_key(&mut need);
        for device in self.devices.values_mut() {
            device.each_key(&mut need);
        }
        let snapshots = self
            .peak_snapshots
            .iter_mut()
            .flat_map(|all| all.values_mut());
        for of in snapshots {
            of.each_key(&mut need);
        }
        needed.extend(self.newest.map(|(key, _)| key));
        needed
    }

    /// The id that stands for evicted stacks.
    fn evicted_key(&mut self) -> KeyId {
        let next = KeyId(self.keys.len() as u32);
        let id = self.key_ids.get_or_insert(StackKey::EVICTED, next);
        if id == next {
            self.keys.push(StackKey::EVICTED);
        }
        id
    }

    /// Replaces these ids by the id of evicted stacks, and renumbers the others.
    fn drop_keys(&mut self, dropped: &FxHashSet<KeyId>) {
        let evicted = self.evicted_key();
        let (mut keys, mut ids) = (Vec::new(), Vec::new());
        for (key, id) in self.keys.iter().zip(0..) {
            if dropped.contains(&KeyId(id)) {
                ids.push(None);
            } else {
                ids.push(Some(KeyId(keys.len() as u32)));
                keys.push(*key);
            }
        }
        let of = |id: KeyId| ids.get(id.0 as usize).copied().flatten();
        let other = of(evicted).unwrap_or_default();
        let mut change = |id: &mut KeyId| *id = of(*id).unwrap_or(other);
        self.keys = keys;
        self.number_keys();
        for state in self.levels.values_mut() {
            state.change_keys(&mut change);
        }
        self.categories.change_keys(&mut change);
        self.objects.each_key(&mut change);
        for device in self.devices.values_mut() {
            device.each_key(&mut change);
        }
        let snapshots = self
            .peak_snapshots
            .iter_mut()
            .flat_map(|all| all.values_mut());
        for of in snapshots {
            of.each_key(&mut change);
        }
        if let Some((key, _)) = &mut self.newest {
            change(key);
        }
    }

    /// Drops definitions that no stack needs.
    fn drop_names(&mut self) {
        let mut stacks: Vec<StackKey> = self.keys.clone();
        stacks.extend(
            self.failures
                .iter()
                .map(|failure| failure.span_context.stacks),
        );
        stacks.extend(
            self.devices
                .values()
                .map(|device| device.span_context.stacks),
        );
        self.names.retain_stacks(&stacks, NEWEST);
    }

    /// Merges the smallest half of the blocks of the level that has most; returns false if there is no block.
    fn merge_blocks(&mut self) -> bool {
        let key = self.evicted_key();
        let most = self
            .levels
            .iter_mut()
            .max_by_key(|(_, state)| state.kept_blocks());
        let sampled = Sampled::new(self.sampling, &self.keys);
        let Some(((_, level), state)) = most.filter(|(_, state)| state.kept_blocks() > 0) else {
            return false;
        };
        let (merged, of_peak) = state.merge_blocks(key, sampled.at(*level));
        self.evicted.blocks += merged.blocks;
        self.evicted.bytes = self.evicted.bytes.saturating_add(merged.bytes);
        self.evicted.peak_blocks += of_peak;
        true
    }
}

#[cfg(test)]
mod tests;
