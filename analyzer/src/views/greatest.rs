//! The largest changes, in memory that does not grow with the number of changes.

use std::sync::Arc;

use rustc_hash::FxHashMap;

use super::changes::Change;

/// The key of similar changes: file, line, device and bytes.
type Key = (Option<Arc<str>>, Option<u32>, Option<u8>, i64);

fn key(change: &Change) -> Key {
    (
        change.file.clone(),
        change.line,
        change.device,
        change.change_bytes,
    )
}

fn groups_of(change: &Change) -> usize {
    change.added.len() + change.removed.len()
}

/// The largest changes, each with the number of similar ones. The size is bounded for any length of capture.
#[derive(Default)]
pub struct Greatest {
    changes: Vec<(Change, u64)>,
    index: FxHashMap<Key, usize>,
    /// The approximate number of groups of all changes.
    groups: usize,
    /// The number of all changes.
    pub seen: u64,
}

/// How many distinct changes are kept while reading.
const KEPT: usize = 2048;
/// The maximum number of their groups (16 bytes each). It may be exceeded by a few changes.
const GROUPS: usize = 1 << 20;
const LEAST_KEPT: usize = 64;

impl Greatest {
    /// Adds a change.
    pub fn add(&mut self, change: Change) {
        self.seen += 1;
        let key = key(&change);
        let groups = groups_of(&change);
        if let Some(index) = self.index.get(&key) {
            let (kept, times) = &mut self.changes[*index];
            *times += 1;
            if change.rise() > kept.rise() {
                self.groups += groups;
                *kept = change;
            }
            return;
        }
        self.index.insert(key, self.changes.len());
        self.changes.push((change, 1));
        self.groups += groups;
        let many = self.groups > GROUPS && self.changes.len() > 2 * LEAST_KEPT;
        if many || self.changes.len() >= 2 * KEPT {
            self.shrink(KEPT);
        }
    }

    fn shrink(&mut self, keep: usize) {
        self.changes
            .sort_by_key(|(change, _)| (std::cmp::Reverse(change.extent()), change.seq));
        self.changes.truncate(keep);
        self.groups = 0;
        let groups = &mut self.groups;
        let few = self
            .changes
            .iter()
            .enumerate()
            .take_while(|(at, (change, _))| {
                *groups += groups_of(change);
                *at < LEAST_KEPT || *groups <= GROUPS / 2
            });
        let few = few.count();
        self.changes.truncate(few);
        let keys = self
            .changes
            .iter()
            .enumerate()
            .map(|(index, (change, _))| (key(change), index));
        self.index = keys.collect();
    }

    /// The `limit` largest changes by time, each with the number of similar ones.
    pub fn take(mut self, limit: usize) -> Vec<(Change, u64)> {
        self.shrink(limit);
        self.changes.sort_by_key(|(change, _)| change.seq);
        self.changes
    }
}
