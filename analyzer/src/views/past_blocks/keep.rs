//! Selects the blocks that are kept if there are more than a page has room for.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use gpumem_capture::{Nanos, Seq};

use super::PastBlock;

/// How many blocks are kept of one device and level.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Room {
    /// Over the whole run: those with most bytes times time, which are largest in a picture.
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
    /// Whether a block was live at any time in it.
    fn has(self, block: Span) -> bool {
        let ended = block.ended.is_none_or(|(ended, _)| ended > self.from);
        block.made.0 <= self.to && ended
    }
}

/// A bounded number of blocks with the highest rank.
#[derive(Clone, Debug, Default)]
struct Highest {
    room: usize,
    /// The lowest rank is on top, with its index in `blocks`.
    ranks: BinaryHeap<Reverse<Ranked>>,
    blocks: Vec<PastBlock>,
    is_full: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Ranked {
    rank: u128,
    made: Reverse<Seq>,
    place: usize,
}

impl Highest {
    fn of(room: usize) -> Self {
        Self {
            room,
            ..Self::default()
        }
    }

    fn offer(&mut self, rank: u128, made: Seq, block: &mut dyn FnMut() -> PastBlock) {
        let made = Reverse(made);
        if self.blocks.len() < self.room {
            let place = self.blocks.len();
            self.blocks.push(block());
            self.ranks.push(Reverse(Ranked { rank, made, place }));
            return;
        }
        self.is_full = true;
        if let Some(mut least) = self.ranks.peek_mut()
            && least.0.rank < rank
        {
            let place = least.0.place;
            self.blocks[place] = block();
            *least = Reverse(Ranked { rank, made, place });
        }
    }
}

/// When a block was allocated and freed, and its bytes: its rank depends on these.
#[derive(Clone, Copy, Debug)]
pub(super) struct Span {
    pub bytes: u64,
    pub made: (Seq, Nanos),
    /// `None` if it is live at the end.
    pub ended: Option<(Seq, Nanos)>,
}

impl Span {
    pub fn of(block: &PastBlock) -> Self {
        Self {
            bytes: block.bytes,
            made: block.made,
            ended: block.ended,
        }
    }
}

/// The kept blocks of a device and level.
#[derive(Clone, Debug)]
pub(super) struct Keep {
    run: Highest,
    stretches: Vec<(DetailRange, Highest)>,
}

/// The result.
#[derive(Clone, Debug, Default)]
pub(super) struct Kept {
    /// In the order of their allocation.
    pub blocks: Vec<PastBlock>,
    /// Whether no block is omitted.
    pub is_all: bool,
    /// The stretches without omitted blocks.
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

    /// A block ended, or the run did. `block` creates it, if it is kept.
    pub fn offer(&mut self, span: Span, now_ns: u64, block: &mut dyn FnMut() -> PastBlock) {
        let ended = span.ended.map_or(now_ns, |(_, ended)| ended.0);
        let life = ended.saturating_sub(span.made.1.0).max(1);
        let area = u128::from(span.bytes) * u128::from(life);
        self.run.offer(area, span.made.0, block);
        for (stretch, highest) in &mut self.stretches {
            if stretch.has(span) {
                highest.offer(u128::from(span.bytes), span.made.0, block);
            }
        }
    }

    pub fn finish(self) -> Kept {
        let is_all = !self.run.is_full;
        let mut blocks: Vec<PastBlock> = Vec::new();
        let mut whole = Vec::new();
        let mut take = |highest: Highest| {
            blocks.extend(highest.blocks);
        };
        take(self.run);
        for (stretch, highest) in self.stretches {
            if !highest.is_full {
                whole.push(stretch);
            }
            take(highest);
        }
        // If a free was cancelled, the block was offered twice: the last one counts.
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
            keep.offer(Span::of(block), 1000, &mut || block.clone());
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
        // A block that was freed by the first event of the stretch was not live in it.
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
