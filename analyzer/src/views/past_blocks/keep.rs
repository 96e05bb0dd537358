//! Which blocks are kept where there are more than a page has room for.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use gpumem_capture::Seq;

use super::PastBlock;

/// How many blocks are kept of one device and level.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Room {
    /// Over the whole run: those that take most of a picture of it, bytes times time.
    pub run: usize,
    /// In each stretch that is kept in detail: those with most bytes.
    pub stretch: usize,
}

/// A stretch of the run whose blocks are kept in detail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DetailRange {
    /// The first event.
    pub from: Seq,
    /// The last one.
    pub to: Seq,
}

impl DetailRange {
    /// Whether a block was live at some moment of it.
    fn has(self, block: &PastBlock) -> bool {
        let ended = block.ended.is_none_or(|(ended, _)| ended > self.from);
        block.made.0 <= self.to && ended
    }
}

/// So many blocks of highest rank.
#[derive(Clone, Debug, Default)]
struct Highest {
    room: usize,
    blocks: BinaryHeap<Reverse<Ranked>>,
    is_full: bool,
}

#[derive(Clone, Debug)]
struct Ranked {
    rank: u128,
    block: PastBlock,
}

impl Ranked {
    fn key(&self) -> (u128, Reverse<Seq>) {
        (self.rank, Reverse(self.block.made.0))
    }
}

impl PartialEq for Ranked {
    fn eq(&self, other: &Self) -> bool {
        self.key() == other.key()
    }
}

impl Eq for Ranked {}

impl PartialOrd for Ranked {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Ranked {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.key().cmp(&other.key())
    }
}

impl Highest {
    fn of(room: usize) -> Self {
        Self {
            room,
            ..Self::default()
        }
    }

    fn offer(&mut self, rank: u128, block: &PastBlock) {
        if self.blocks.len() >= self.room {
            self.is_full = true;
            if self.blocks.peek().is_none_or(|least| least.0.rank >= rank) {
                return;
            }
            self.blocks.pop();
        }
        let block = block.clone();
        self.blocks.push(Reverse(Ranked { rank, block }));
    }
}

/// What is kept of a device and level.
#[derive(Clone, Debug)]
pub(super) struct Keep {
    run: Highest,
    stretches: Vec<(DetailRange, Highest)>,
}

/// What was kept.
#[derive(Clone, Debug, Default)]
pub(super) struct Kept {
    /// In the order in which they were allocated.
    pub blocks: Vec<PastBlock>,
    /// Whether no block was left out.
    pub is_all: bool,
    /// The stretches of which no block was left out.
    pub whole: Vec<DetailRange>,
}

impl Keep {
    pub fn new(room: Room, stretches: &[DetailRange]) -> Self {
        let stretches = stretches.iter();
        Self {
            run: Highest::of(room.run),
            stretches: stretches
                .map(|stretch| (*stretch, Highest::of(room.stretch)))
                .collect(),
        }
    }

    /// A block has ended, or the run has.
    pub fn offer(&mut self, block: &PastBlock, now_ns: u64) {
        let ended = block.ended.map_or(now_ns, |(_, ended)| ended.0);
        let life = ended.saturating_sub(block.made.1.0).max(1);
        self.run
            .offer(u128::from(block.bytes) * u128::from(life), block);
        for (stretch, highest) in &mut self.stretches {
            if stretch.has(block) {
                highest.offer(u128::from(block.bytes), block);
            }
        }
    }

    pub fn finish(self) -> Kept {
        let is_all = !self.run.is_full;
        let mut blocks: Vec<PastBlock> = Vec::new();
        let mut whole = Vec::new();
        let mut take = |highest: Highest| {
            blocks.extend(highest.blocks.into_iter().map(|ranked| ranked.0.block));
        };
        take(self.run);
        for (stretch, highest) in self.stretches {
            if !highest.is_full {
                whole.push(stretch);
            }
            take(highest);
        }
        // Where a free was cancelled the block was offered twice: what came last counts.
        let end = |block: &PastBlock| block.ended.map_or(Seq(u64::MAX), |(ended, _)| ended);
        blocks.sort_unstable_by_key(|block| (block.made.0, Reverse(end(block))));
        blocks.dedup_by_key(|block| block.made.0);
        Kept {
            blocks,
            is_all,
            whole,
        }
    }
}

#[cfg(test)]
mod tests {
    use gpumem_capture::Nanos;

    use super::*;

    fn block(made: u64, ended: Option<u64>, bytes: u64) -> PastBlock {
        let at = |seq| (Seq(seq), Nanos(seq * 10));
        PastBlock {
            made: at(made),
            ended: ended.map(at),
            bytes,
            ..PastBlock::default()
        }
    }

    fn kept(room: Room, stretches: &[DetailRange], blocks: &[PastBlock]) -> Kept {
        let mut keep = Keep::new(room, stretches);
        for block in blocks {
            keep.offer(block, 1000);
        }
        keep.finish()
    }

    fn made(kept: &Kept) -> Vec<u64> {
        kept.blocks.iter().map(|block| block.made.0.0).collect()
    }

    #[test]
    fn the_run_keeps_what_takes_most_of_its_picture() {
        let room = Room { run: 2, stretch: 0 };
        let all = [
            block(1, Some(2), 100),
            block(3, Some(90), 10),
            block(4, None, 10),
        ];
        let found = kept(room, &[], &all);
        assert_eq!(made(&found), [3, 4]);
        assert!(!found.is_all);
        assert!(kept(Room { run: 3, ..room }, &[], &all).is_all);
    }

    #[test]
    fn a_stretch_keeps_all_that_was_live_in_it() {
        let room = Room { run: 1, stretch: 3 };
        let all = [
            block(1, None, 100),
            block(5, Some(9), 1),
            block(10, Some(12), 1),
            block(11, Some(30), 1),
            block(20, Some(21), 1),
            block(31, Some(32), 1),
        ];
        let stretch = DetailRange {
            from: Seq(12),
            to: Seq(30),
        };
        let found = kept(room, &[stretch], &all);
        // What ended with the stretch's first event was not live in it.
        assert_eq!(made(&found), [1, 11, 20]);
        assert_eq!((found.is_all, found.whole), (false, vec![stretch]));
        let found = kept(Room { stretch: 2, ..room }, &[stretch], &all);
        assert!(found.whole.is_empty());
    }

    #[test]
    fn a_free_that_was_cancelled_did_not_end_its_block() {
        let room = Room { run: 9, stretch: 9 };
        let found = kept(room, &[], &[block(1, Some(4), 7), block(1, None, 7)]);
        assert_eq!(found.blocks, [block(1, None, 7)]);
    }
}
