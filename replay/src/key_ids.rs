//! The number of each pair of stacks.

use std::hash::BuildHasher as _;

use rustc_hash::{FxBuildHasher, FxHashMap};

use crate::ids::{KeyId, StackKey};

/// The size of the cache of recently used keys, initially and at most. Powers of two.
const AT_HAND: usize = 1 << 10;
const MOST_AT_HAND: usize = 1 << 17;

/// The numbers of keys. Each allocation looks up one; recently used keys are found in a cache.
#[derive(Debug)]
pub(crate) struct KeyIds {
    all: FxHashMap<StackKey, KeyId>,
    /// The cache, indexed by a few bits of the hash, with two entries for each key up to [`MOST_AT_HAND`].
    at_hand: Vec<KeyId>,
}

impl Default for KeyIds {
    fn default() -> Self {
        Self::of(&[])
    }
}

impl KeyIds {
    /// Numbers these keys by their positions.
    pub(crate) fn of(keys: &[StackKey]) -> Self {
        let ids = keys.iter().zip(0..);
        Self {
            all: ids.map(|(key, id)| (*key, KeyId(id))).collect(),
            at_hand: vec![KeyId::NONE; places_for(keys.len())],
        }
    }

    /// A key's number, if it has one.
    pub(crate) fn get(&self, key: &StackKey) -> Option<KeyId> {
        self.all.get(key).copied()
    }

    /// A key's number, if it has one; the key is cached for the next lookup. `keys` has the keys by number.
    #[inline]
    pub(crate) fn again(&mut self, key: &StackKey, keys: &[StackKey]) -> Option<KeyId> {
        let at = FxBuildHasher.hash_one(key) as usize & (self.at_hand.len() - 1);
        let id = self.at_hand[at];
        if keys.get(id.0 as usize) == Some(key) {
            return Some(id);
        }
        let id = self.get(key)?;
        self.at_hand[at] = id;
        Some(id)
    }

    /// A key's number; a new key gets `next`.
    pub(crate) fn get_or_insert(&mut self, key: StackKey, next: KeyId) -> KeyId {
        let id = *self.all.entry(key).or_insert(next);
        let places = places_for(self.all.len());
        if places > self.at_hand.len() {
            self.at_hand = vec![KeyId::NONE; places];
        }
        id
    }
}

fn places_for(keys: usize) -> usize {
    (2 * keys).next_power_of_two().clamp(AT_HAND, MOST_AT_HAND)
}
