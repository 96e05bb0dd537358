//! Live blocks that programs requested from the driver.

use gpumem_capture::{DeviceOrdinal, Event, EventFlags, EventKind, Level, StackId};
use rustc_hash::FxHashMap;

use super::origin::Origin;

/// The key of a block: pointers of different levels are never the same block.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key {
    /// The level of the pointer.
    pub level: Level,
    /// Whether it is a physical handle, not an address.
    pub is_handle: bool,
    /// The pointer.
    pub ptr: u64,
}

/// A live block.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Block {
    /// Its size.
    pub bytes: u64,
    /// The context that owns it, or the pool that stream-ordered memory came from; 0: its device alone.
    pub context: u64,
    /// Its device.
    pub device: DeviceOrdinal,
    /// Its kind.
    pub flags: EventFlags,
    /// The Python stack of its allocation.
    pub py_stack: StackId,
}

impl Block {
    /// The context that owns it; 0 if only its device does.
    pub(crate) fn owner(&self) -> u64 {
        match self.pool() {
            Some(_) => 0,
            None => self.context,
        }
    }

    /// The pool that it came from, if it is stream-ordered.
    pub(crate) fn pool(&self) -> Option<u64> {
        let is_pooled = self.flags.contains(EventFlags::STREAM_ORDERED);
        is_pooled.then_some(self.context)
    }

    pub(crate) fn event(&self, kind: EventKind, key: Key, origin: Origin) -> Event {
        Event {
            ptr: key.ptr,
            bytes: self.bytes,
            device: self.device,
            flags: self.flags,
            ..origin.event(kind, key.level)
        }
    }

    pub(crate) fn is_managed(&self) -> bool {
        self.flags.contains(EventFlags::MANAGED)
    }
}

/// The live blocks, and the number of blocks of managed memory.
#[derive(Debug, Default)]
pub(crate) struct Blocks {
    pub(crate) all: FxHashMap<Key, Block>,
    pub(crate) managed: usize,
}

impl Blocks {
    pub(crate) fn insert(&mut self, key: Key, block: Block) -> Option<Block> {
        let stale = self.all.insert(key, block);
        self.managed += usize::from(block.is_managed());
        self.managed -= usize::from(stale.is_some_and(|stale| stale.is_managed()));
        stale
    }

    pub(crate) fn remove(&mut self, key: Key) -> Option<Block> {
        let block = self.all.remove(&key)?;
        self.managed -= usize::from(block.is_managed());
        Some(block)
    }

    pub(crate) fn has(&self, key: Key) -> bool {
        self.all.contains_key(&key)
    }

    /// Whether any block came from a pool.
    pub(crate) fn any_of_pool(&self, pool: u64) -> bool {
        self.all.values().any(|block| block.pool() == Some(pool))
    }

    /// The blocks whose owner `wanted` selects by device and context, in the order of their keys.
    pub(crate) fn owned(&self, wanted: impl Fn(DeviceOrdinal, u64) -> bool) -> Vec<Key> {
        let all = self.all.iter();
        let picked = all.filter(|(_, block)| wanted(block.device, block.owner()));
        let mut keys: Vec<_> = picked.map(|(key, _)| *key).collect();
        keys.sort_unstable();
        keys
    }
}
