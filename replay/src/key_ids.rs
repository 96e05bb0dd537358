//! The number of each pair of stacks.

use rustc_hash::FxHashMap;

use crate::ids::{KeyId, StackKey};

/// The size of the cache of recently used keys. A power of two.
const AT_HAND: usize = 1024;

/// The numbers of keys. Each allocation looks up one; recently used keys are found in a cache.
#[derive(Debug)]
pub(crate) struct KeyIds {
    all: FxHashMap<StackKey, KeyId>,
    /// The cache, indexed by a few bits of the stacks.
    at_hand: Box<[(StackKey, KeyId)]>,
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
            at_hand: Box::new([(StackKey::default(), KeyId::NONE); AT_HAND]),
        }
    }

    /// A key's number, if it has one.
    pub(crate) fn get(&self, key: &StackKey) -> Option<KeyId> {
        self.all.get(key).copied()
    }

    /// A key's number, if it has one; the key is cached for the next lookup.
    #[inline]
    pub(crate) fn again(&mut self, key: &StackKey) -> Option<KeyId> {
        let at = place(key);
        let (known, id) = self.at_hand[at];
        if known == *key && id != KeyId::NONE {
            return Some(id);
        }
        let id = self.get(key)?;
        self.at_hand[at] = (*key, id);
        Some(id)
    }

    /// A key's number; a new key gets `next`.
    pub(crate) fn get_or_insert(&mut self, key: StackKey, next: KeyId) -> KeyId {
        *self.all.entry(key).or_insert(next)
    }
}

#[inline]
fn place(key: &StackKey) -> usize {
    let stacks = key.native.0.wrapping_mul(0x9e37_79b1) ^ key.py.0;
    (stacks ^ u32::from(key.purpose.0) << 5) as usize % AT_HAND
}
