//! Adds a walked stack, and evicts others for it.

use super::{
    AT_ONCE, BLOCK, BLOCKS, Block, Entry, Link, MOST, OWN, Place, StackCache, WAYS, WORDS, Word,
};

/// A stack as it was walked.
pub(in crate::x86_64) struct Walked<'a> {
    pub(in crate::x86_64) from: Place,
    pub(in crate::x86_64) by_bp: bool,
    /// Those of the oldest frame first.
    pub(in crate::x86_64) words: &'a [Word],
    /// Which of them are return addresses of frames that are kept.
    pub(in crate::x86_64) kept: &'a [bool],
    pub(in crate::x86_64) first_is_kept: bool,
    pub(in crate::x86_64) hash: u64,
    pub(in crate::x86_64) len: usize,
}

impl StackCache {
    /// Adds a walked stack.
    pub(in crate::x86_64) fn add(&mut self, walked: &Walked<'_>) {
        let count = walked.words.len();
        if count == 0 || count > MOST || walked.kept.len() != count {
            return;
        }
        let shared = count.saturating_sub(OWN) / BLOCK * BLOCK;
        let (older, own) = walked.words.split_at(shared);
        let (older_kept, own_kept) = walked.kept.split_at(shared);
        let mut link = Link::default();
        for (words, kept) in older.chunks_exact(BLOCK).zip(older_kept.chunks(BLOCK)) {
            link = self.add_block(words, bits(kept) as u32, link);
        }
        let room_for = own.len().next_multiple_of(AT_ONCE);
        let first = room(&mut self.words_so_far, room_for, WORDS);
        let start = first as usize % WORDS;
        if let Some(places) = self.words.get_mut(start..start + room_for) {
            // Padded by repeating the oldest words.
            let newest_first = own.iter().rev().chain(own.iter().cycle());
            for (place, word) in places.iter_mut().zip(newest_first) {
                *place = *word;
            }
        }
        let places = Self::places(walked.from);
        let free = (places..places + WAYS).find(|place| !self.is_whole(self.entry(*place)));
        let place = free.unwrap_or_else(|| {
            self.turn = self.turn.wrapping_add(1);
            places + usize::from(self.turn) % WAYS
        });
        let next = self.entry(place).next;
        if let (Some(entry), Some(kept)) = (self.entries.get_mut(place), self.kept.get_mut(place)) {
            *kept = bits(own_kept);
            *entry = Entry {
                from: walked.from,
                first,
                older: link,
                hash: walked.hash,
                note: 0,
                words: room_for as u16,
                len: walked.len as u16,
                next,
                by_bp: walked.by_bp,
                first_is_kept: walked.first_is_kept,
            };
        }
        self.used = true;
        self.follow(place);
    }

    /// The block of these words, the oldest first, on top of `older`.
    fn add_block(&mut self, words: &[Word], kept: u32, older: Link) -> Link {
        let mixed = words.iter().fold(older.0, |mixed, word| {
            (mixed.rotate_left(23) ^ word.at ^ word.held).wrapping_mul(0x9e37_79b9_7f4a_7c15)
        });
        let first = (mixed >> 40) as usize % (BLOCKS / WAYS) * WAYS;
        let is_same = |block: &Block| {
            block.mine != Link::default()
                && (block.older, block.kept) == (older, kept)
                && block.words.iter().rev().eq(words)
        };
        let places = self.blocks.get(first..first + WAYS).unwrap_or_default();
        if let Some(block) = places.iter().find(|block| is_same(block)) {
            return block.mine;
        }
        // The oldest is evicted.
        let place = (first..).zip(places).min_by_key(|(_, block)| block.mine.0);
        let place = place.map_or(first, |(place, _)| place);
        self.blocks_so_far += 1;
        let mine = Link(self.blocks_so_far * BLOCKS as u64 + place as u64);
        if let Some(block) = self.blocks.get_mut(place) {
            (block.mine, block.older, block.kept) = (mine, older, kept);
            for (place, word) in block.words.iter_mut().rev().zip(words) {
                *place = *word;
            }
        }
        mine
    }
}

/// A bit for each, the last one the lowest: words are kept the newest first.
fn bits(kept: &[bool]) -> u64 {
    kept.iter()
        .fold(0, |bits, kept| bits << 1 | u64::from(*kept))
}

/// The position of `count` contiguous items in a ring of `size`.
fn room(so_far: &mut u64, count: usize, size: usize) -> u64 {
    let size = size as u64;
    if *so_far % size + count as u64 > size {
        *so_far = so_far.next_multiple_of(size);
    }
    let first = *so_far;
    *so_far += count as u64;
    first
}
