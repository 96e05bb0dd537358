//! The blocks of memory that tensors have.

use core::ops::Range;

use crate::heap::Id;
use crate::tensors::Memory;

/// A block.
pub(crate) struct Block {
    pub(crate) address: u64,
    pub(crate) bytes: u64,
    /// Its tensors, among all.
    tensors: Range<usize>,
    /// The tensor with the best path so far.
    pub(crate) best: Option<Best>,
}

/// A tensor by whose path a block is named.
#[derive(Clone, Copy)]
pub(crate) struct Best {
    /// The smallest is the best.
    pub(crate) order: usize,
    pub(crate) how: How,
    pub(crate) tensor: Id,
}

/// How a tensor has a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum How {
    /// It is its memory.
    Own,
    /// It is that of its gradient.
    Gradient,
    /// The graph that hangs on it keeps it.
    Graph,
    /// The graph that hangs on its gradient keeps it.
    GraphOfGradient,
}

/// Blocks by address. There may be a million of them.
pub(crate) struct Blocks {
    pub(crate) all: Vec<Block>,
    /// The tensors of one block after those of another.
    tensors: Vec<(Id, Memory)>,
}

impl Blocks {
    /// The blocks of these tensors, and others that no object has.
    pub(crate) fn new(mut tensors: Vec<(Id, Memory)>, others: Vec<Memory>) -> Self {
        tensors.sort_unstable_by_key(|(tensor, memory)| (memory.block, *tensor));
        let mut all: Vec<Block> = Vec::with_capacity(tensors.len());
        for (number, (_, memory)) in tensors.iter().enumerate() {
            match all.last_mut() {
                Some(last) if last.address == memory.block => last.tensors.end = number + 1,
                _ => all.push(Block::new(memory, number..number + 1)),
            }
        }
        let mut blocks = Self { all, tensors };
        let is_new = |memory: &Memory| blocks.number(memory.block).is_none();
        let new: Vec<_> = others.into_iter().filter(is_new).collect();
        blocks
            .all
            .extend(new.iter().map(|memory| Block::new(memory, 0..0)));
        blocks.all.sort_by_key(|block| block.address);
        blocks.all.dedup_by_key(|block| block.address);
        blocks
    }

    /// The blocks with these numbers.
    pub(crate) fn of<'a>(&'a self, numbers: &'a [u32]) -> impl Iterator<Item = &'a Block> {
        let all = numbers.iter();
        all.filter_map(|number| self.all.get(*number as usize))
    }

    /// The tensors of a block.
    pub(crate) fn tensors(&self, block: &Block) -> &[(Id, Memory)] {
        self.tensors.get(block.tensors.clone()).unwrap_or(&[])
    }

    /// Passes each block with its tensors.
    pub(crate) fn each(&mut self, mut pass: impl FnMut(&mut Block, &[(Id, Memory)])) {
        for block in &mut self.all {
            let tensors = self.tensors.get(block.tensors.clone()).unwrap_or(&[]);
            pass(block, tensors);
        }
    }

    /// The block at an address.
    pub(crate) fn at(&mut self, address: u64) -> Option<&mut Block> {
        let number = self.number(address)?;
        self.all.get_mut(number)
    }

    fn number(&self, address: u64) -> Option<usize> {
        let found = self
            .all
            .binary_search_by_key(&address, |block| block.address);
        found.ok()
    }
}

impl Block {
    fn new(memory: &Memory, tensors: Range<usize>) -> Self {
        Self {
            address: memory.block,
            bytes: memory.bytes,
            tensors,
            best: None,
        }
    }
}
