//! Free ranges in one block of address space.

use std::collections::BTreeMap;

/// Free ranges of a block, by offset; adjacent ones are always merged.
#[derive(Clone, Debug)]
pub struct FreeRanges {
    size: u64,
    free: BTreeMap<u64, u64>,
}

impl FreeRanges {
    /// A block of `size` bytes, all of it free.
    pub fn new(size: u64) -> Self {
        Self {
            size,
            free: BTreeMap::from([(0, size)]),
        }
    }

    /// Bytes in the block, free or not.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// Whether the whole block is free.
    pub fn is_unused(&self) -> bool {
        self.free.get(&0) == Some(&self.size)
    }

    /// Takes the first range that fits `bytes`; returns its offset.
    pub fn take(&mut self, bytes: u64) -> Option<u64> {
        let (&offset, &length) = self.free.iter().find(|(_, length)| **length >= bytes)?;
        self.free.remove(&offset);
        if length > bytes {
            self.free.insert(offset + bytes, length - bytes);
        }
        Some(offset)
    }

    /// Frees a range from [`take`](Self::take).
    pub fn give(&mut self, offset: u64, bytes: u64) {
        let mut start = offset;
        let mut length = bytes;
        if let Some((&before, &before_length)) = self.free.range(..offset).next_back() {
            debug_assert!(before + before_length <= offset, "given back twice");
            if before + before_length == offset {
                start = before;
                length += before_length;
            }
        }
        if let Some(after_length) = self.free.remove(&(offset + bytes)) {
            length += after_length;
        }
        self.free.insert(start, length);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn takes_the_first_fit_and_joins_neighbours() {
        let mut ranges = FreeRanges::new(100);
        assert_eq!(ranges.take(40), Some(0));
        assert_eq!(ranges.take(40), Some(40));
        assert_eq!(ranges.take(40), None);
        assert_eq!(ranges.take(20), Some(80));
        ranges.give(0, 40);
        ranges.give(80, 20);
        assert!(!ranges.is_unused());
        assert_eq!(ranges.take(41), None);
        ranges.give(40, 40);
        assert!(ranges.is_unused());
        assert_eq!(ranges.take(100), Some(0));
    }
}
