//! A cache of walked stacks: where each was taken, and the words of the stack that the walk depended on.
//!
//! A training takes its stacks at the same places in every step, with the same stack pointer. A walk is a chain of
//! dependent loads. An entry lists the words that one walk read and their values: if they are unchanged, the walk
//! would find the same frames. The words are loaded independently of each other.
//!
//! An entry lists return addresses, saved CFAs, and the saved frame pointers that an older frame is found by. Other
//! registers do not affect the walk.
//!
//! The newest words are an entry's own. The others lie in blocks of [`BLOCK`], each linked to the block of the next
//! older words. Stacks with the same oldest frames share blocks: a deep program has hundreds of such stacks.

mod insert;

pub(super) use insert::Walked;

/// Entries of the cache, a multiple of [`WAYS`].
const ENTRIES: usize = 512;
/// Associativity: the places that an entry may be at, by where its stack was taken.
const WAYS: usize = 4;
/// The entries' own words, together.
const WORDS: usize = 1 << 13;
/// Words of a block.
const BLOCK: usize = 32;
/// Places of blocks, a multiple of [`WAYS`], which is their associativity too.
const BLOCKS: usize = 256;
/// An entry's own words, if its stack has as many, are at least these: the newest words differ most between stacks,
/// so most mismatches are found without reading a block.
const OWN: usize = 16;
/// Words that are compared at once; an entry's own words and a block are a multiple of it.
const AT_ONCE: usize = 4;
/// Words of the deepest stack that is cached.
pub(super) const MOST: usize = 1 << 11;

const _: () = assert!(OWN + BLOCK <= u64::BITS as usize && BLOCK <= u32::BITS as usize);
const _: () = assert!(ENTRIES <= u16::MAX as usize && (OWN + BLOCK).is_multiple_of(AT_ONCE));

/// A word of the stack, and its value.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Word {
    pub(super) at: u64,
    pub(super) held: u64,
}

/// The registers of a frame, from which a walk continues.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) pc: u64,
    pub(super) sp: u64,
    pub(super) bp: u64,
}

/// A cached stack. An entry without words is empty.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C, align(64))]
pub(super) struct Entry {
    from: Place,
    /// Where its own words are, counted without wrapping.
    first: u64,
    /// The block of the next older words.
    older: Link,
    pub(super) hash: u64,
    /// The caller's note on it; 0 for no note.
    note: u32,
    words: u16,
    /// How many frames are kept.
    pub(super) len: u16,
    /// The entry that was found after this one the last time.
    next: u16,
    /// Whether the walk depends on the frame pointer that it begins with.
    by_bp: bool,
    /// Whether the frame that it begins with is kept.
    first_is_kept: bool,
}

const _: () = assert!(size_of::<Entry>() == 64);

/// A block: its number times [`BLOCKS`], plus its place. Numbers are never reused, so a link to an evicted block is
/// invalid. 0: no block.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Link(u64);

/// Words that many stacks have, the newest first.
#[derive(Clone, Copy)]
#[repr(C, align(64))]
struct Block {
    words: [Word; BLOCK],
    mine: Link,
    older: Link,
    /// Which of the words are return addresses of frames that are kept.
    kept: u32,
}

/// The cached stacks of one thread. All zeros are an empty cache.
pub(super) struct StackCache {
    entries: [Entry; ENTRIES],
    /// Which of each entry's own words are return addresses of frames that are kept.
    kept: [u64; ENTRIES],
    words: [Word; WORDS],
    blocks: [Block; BLOCKS],
    /// Own words and blocks so far.
    words_so_far: u64,
    blocks_so_far: u64,
    /// The owner of the notes; 0: there were none.
    noted_by: u64,
    /// The entry that was found last.
    last: u16,
    /// Which of the places of a new entry is evicted next.
    turn: u16,
    /// Whether there are entries.
    used: bool,
}

/// Whether all of these words have their values. Their number is a multiple of [`AT_ONCE`].
///
/// # Safety
/// All of them can be read.
#[inline(always)]
unsafe fn all_hold(words: &[Word]) -> bool {
    let (words, _) = words.as_chunks::<AT_ONCE>();
    words.iter().all(|words| {
        words.iter().all(|word| {
            // SAFETY: promised by the caller.
            unsafe { *(word.at as *const u64) == word.held }
        })
    })
}

impl StackCache {
    /// Empties the cache, because the code or the stack has changed.
    pub(super) fn clear(&mut self) {
        if self.used {
            self.entries.fill(Entry::default());
            self.used = false;
        }
    }

    /// The first of the places of an entry for a stack taken here.
    #[inline(always)]
    fn places(from: Place) -> usize {
        let mixed = (from.sp ^ from.pc.rotate_left(32)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        (mixed >> 40) as usize % (ENTRIES / WAYS) * WAYS
    }

    /// The entry for a stack taken here whose words all have their values.
    ///
    /// # Safety
    /// `from` lies on the calling thread's stack, as did those of all entries since [`StackCache::clear`]: then what
    /// is older than it can be read.
    #[inline(always)]
    pub(super) unsafe fn find(&mut self, from: Place) -> Option<usize> {
        let expected = usize::from(self.entry(usize::from(self.last)).next);
        // SAFETY: promised by the caller.
        if unsafe { self.holds(expected, from) } {
            self.last = expected as u16;
            return Some(expected);
        }
        // SAFETY: as above.
        unsafe { self.find_other(expected, from) }
    }

    /// The same, where it is not the expected one.
    ///
    /// # Safety
    /// As [`StackCache::find`].
    #[inline(never)]
    unsafe fn find_other(&mut self, expected: usize, from: Place) -> Option<usize> {
        let places = Self::places(from);
        // SAFETY: promised by the caller.
        let found = (places..places + WAYS)
            .find(|place| *place != expected && unsafe { self.holds(*place, from) })?;
        self.follow(found);
        Some(found)
    }

    /// Notes that the entry at `place` was found after the last one.
    #[inline]
    fn follow(&mut self, place: usize) {
        if let Some(last) = self.entries.get_mut(usize::from(self.last)) {
            last.next = place as u16;
        }
        self.last = place as u16;
    }

    #[inline(always)]
    pub(super) fn entry(&self, place: usize) -> &Entry {
        let [first, ..] = &self.entries;
        self.entries.get(place).unwrap_or(first)
    }

    /// The block of a link, if it is still there.
    #[inline(always)]
    fn block(&self, link: Link) -> Option<&Block> {
        let block = self.blocks.get(link.0 as usize % BLOCKS)?;
        (block.mine == link).then_some(block)
    }

    /// Whether all words of an entry are still in the cache.
    fn is_whole(&self, entry: &Entry) -> bool {
        let mut older = entry.older;
        while let Some(block) = self.block(older)
            && older != Link::default()
        {
            older = block.older;
        }
        entry.words != 0
            && self.words_so_far - entry.first <= WORDS as u64
            && older == Link::default()
    }

    /// # Safety
    /// As [`StackCache::find`].
    #[inline(always)]
    unsafe fn holds(&self, place: usize, from: Place) -> bool {
        let entry = self.entry(place);
        let begins = entry.words != 0
            && (entry.from.sp, entry.from.pc) == (from.sp, from.pc)
            && (entry.from.bp == from.bp || !entry.by_bp)
            && self.words_so_far - entry.first <= WORDS as u64;
        if !begins {
            return false;
        }
        // One loop for the own words and all blocks: few lines of code.
        let (mut words, mut older) = (self.own_words(entry), entry.older);
        loop {
            // SAFETY: each word was on the thread's stack, and not newer than `entry.from`, which is `from`: by the
            // caller's promise it can be read.
            if !unsafe { all_hold(words) } {
                return false;
            }
            if older == Link::default() {
                return true;
            }
            let Some(block) = self.block(older) else {
                return false;
            };
            (words, older) = (&block.words, block.older);
        }
    }

    #[inline(always)]
    fn own_words(&self, entry: &Entry) -> &[Word] {
        let first = entry.first as usize % WORDS;
        let words = self.words.get(first..first + usize::from(entry.words));
        words.unwrap_or_default()
    }

    /// The note on an entry, if it is one of `by`.
    #[inline(always)]
    pub(super) fn noted(&self, place: usize, by: u64) -> Option<u32> {
        let note = self.entry(place).note;
        (note != 0 && self.noted_by == by).then_some(note)
    }

    /// Sets the note on an entry. Notes of others than `by` are dropped.
    pub(super) fn note(&mut self, place: usize, by: u64, note: u32) {
        if self.noted_by != by {
            // The first notes are on entries without one, most of which have no memory yet.
            if self.noted_by != 0 {
                self.entries.iter_mut().for_each(|entry| entry.note = 0);
            }
            self.noted_by = by;
        }
        if let Some(entry) = self.entries.get_mut(place) {
            entry.note = note;
        }
    }

    /// The kept frames of an entry that was just found, the newest first.
    pub(super) fn frames(&self, place: usize) -> impl Iterator<Item = u64> {
        let entry = self.entry(place);
        let own = kept_of(
            self.own_words(entry),
            self.kept.get(place).copied().unwrap_or_default(),
        );
        let next = |block: &&Block| self.block(block.older);
        let blocks = core::iter::successors(self.block(entry.older), next);
        let older = blocks
            .take_while(|block| block.mine != Link::default())
            .flat_map(|block| kept_of(&block.words, block.kept.into()));
        let first = entry.first_is_kept.then_some(entry.from.pc);
        first.into_iter().chain(own).chain(older)
    }
}

/// The values of the words whose bits are set.
fn kept_of(words: &[Word], bits: u64) -> impl Iterator<Item = u64> {
    let all = words.iter().take(u64::BITS as usize).enumerate();
    all.filter(move |(place, _)| bits >> place & 1 != 0)
        .map(|(_, word)| word.held)
}

#[cfg(test)]
mod tests;
