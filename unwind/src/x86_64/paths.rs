//! Stacks that were walked before: where each was taken, and what made the walk find it.
//!
//! A training takes its stacks at the same places in every step, with the same stack pointer. A walk is a chain of
//! loads in which each waits for the one before. A stack that was walked once is a list of words of the stack and of
//! what they held: if they still do, the walk would find the same frames, and all of them are loaded at once.
//!
//! A word belongs to the list if the walk's course depends on it: return addresses, saved CFAs, and saved frame
//! pointers that an older frame goes by. What a register held that nobody went by is of no account.
//!
//! The newest words are a way's own. The others lie in blocks of [`BLOCK`], each with a link to the block of the
//! next older ones, and are shared by all stacks that begin with the same frames: a deep program has hundreds.

/// Ways that are remembered, a multiple of [`WAYS`].
const PATHS: usize = 512;
/// Places that a way may be at, by where it begins.
const WAYS: usize = 4;
/// The ways' own words, together.
const WORDS: usize = 1 << 13;
/// Words of a block.
const BLOCK: usize = 32;
/// Places of blocks, a multiple of [`WAYS`] too: a block may be at as many.
const BLOCKS: usize = 256;
/// Where a stack has as many words, at least so many are the way's own: two ways hardly share those, and where
/// they are others the blocks need no look.
const OWN: usize = 16;
/// Words that are compared in one go; their number is a multiple of it.
const AT_ONCE: usize = 4;
/// Words of the deepest stack that is remembered.
pub(super) const MOST: usize = 1 << 11;

const _: () = assert!(OWN + BLOCK <= u64::BITS as usize && BLOCK <= u32::BITS as usize);
const _: () = assert!(PATHS <= u16::MAX as usize && (OWN + BLOCK).is_multiple_of(AT_ONCE));

/// A word of the stack, and what it held.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Word {
    pub(super) at: u64,
    pub(super) held: u64,
}

/// Where a frame begins: what a walk goes on from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) pc: u64,
    pub(super) sp: u64,
    pub(super) bp: u64,
}

/// A way. One without words is none.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C, align(64))]
pub(super) struct Path {
    from: Place,
    /// Where its own words are, counted without wrapping.
    first: u64,
    /// The block of the next older words.
    older: Link,
    pub(super) hash: u64,
    /// What was noted of it; 0: nothing.
    note: u32,
    words: u16,
    /// How many frames are kept.
    pub(super) len: u16,
    /// The way that was taken after this one the last time.
    next: u16,
    /// Whether its course depends on the frame pointer that it begins with.
    by_bp: bool,
    /// Whether the frame that it begins with is kept.
    first_is_kept: bool,
}

const _: () = assert!(size_of::<Path>() == 64);

/// A block: its number times [`BLOCKS`], and its place. No number is given twice, so that a link to a block that
/// made room for another one leads nowhere. 0: there is none.
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

/// A stack as it was walked.
pub(super) struct Walked<'a> {
    pub(super) from: Place,
    pub(super) by_bp: bool,
    /// Those of the oldest frame first.
    pub(super) words: &'a [Word],
    /// Which of them are return addresses of frames that are kept.
    pub(super) kept: &'a [bool],
    pub(super) first_is_kept: bool,
    pub(super) hash: u64,
    pub(super) len: usize,
}

/// The ways of one thread. All zeros are none.
pub(super) struct Paths {
    paths: [Path; PATHS],
    /// Of each way's own words, which are return addresses of frames that are kept.
    kept: [u64; PATHS],
    words: [Word; WORDS],
    blocks: [Block; BLOCKS],
    /// Own words and blocks so far.
    words_so_far: u64,
    blocks_so_far: u64,
    /// Whose the notes are.
    noted_by: u64,
    /// The way that was taken last.
    last: u16,
    /// Where the next one goes among the places that it may be at.
    turn: u16,
    /// Whether there are any.
    used: bool,
}

/// Whether all of these words hold what they held. They are compared [`AT_ONCE`] at a time, and so many there are.
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

impl Paths {
    /// Forgets all: they were of other code, or of another stack.
    pub(super) fn clear(&mut self) {
        if self.used {
            self.paths.fill(Path::default());
            self.used = false;
        }
    }

    /// The first of the places of a way that begins here.
    #[inline(always)]
    fn places(from: Place) -> usize {
        let mixed = (from.sp ^ from.pc.rotate_left(32)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        (mixed >> 40) as usize % (PATHS / WAYS) * WAYS
    }

    /// The way that begins here and whose words all hold what they held.
    ///
    /// # Safety
    /// `from` lies on the calling thread's stack, as did those of all ways since they were cleared: then what is
    /// older than it can be read.
    #[inline(always)]
    pub(super) unsafe fn find(&mut self, from: Place) -> Option<usize> {
        let expected = usize::from(self.path(usize::from(self.last)).next);
        // SAFETY: promised by the caller.
        if unsafe { self.holds(expected, from) } {
            self.last = expected as u16;
            return Some(expected);
        }
        // SAFETY: as above.
        unsafe { self.find_other(expected, from) }
    }

    /// The same where it is another one than expected.
    ///
    /// # Safety
    /// As [`Paths::find`].
    #[inline(never)]
    unsafe fn find_other(&mut self, expected: usize, from: Place) -> Option<usize> {
        let places = Self::places(from);
        // SAFETY: promised by the caller.
        let found = (places..places + WAYS)
            .find(|place| *place != expected && unsafe { self.holds(*place, from) })?;
        self.follow(found);
        Some(found)
    }

    /// Notes that the way at `place` is taken after the last one.
    #[inline]
    fn follow(&mut self, place: usize) {
        if let Some(last) = self.paths.get_mut(usize::from(self.last)) {
            last.next = place as u16;
        }
        self.last = place as u16;
    }

    #[inline(always)]
    pub(super) fn path(&self, place: usize) -> &Path {
        let [first, ..] = &self.paths;
        self.paths.get(place).unwrap_or(first)
    }

    /// The block of a link, if it is still there.
    #[inline(always)]
    fn block(&self, link: Link) -> Option<&Block> {
        let block = self.blocks.get(link.0 as usize % BLOCKS)?;
        (block.mine == link).then_some(block)
    }

    /// Whether nothing of a way has made room for others.
    fn is_whole(&self, path: &Path) -> bool {
        let mut older = path.older;
        while let Some(block) = self.block(older)
            && older != Link::default()
        {
            older = block.older;
        }
        path.words != 0
            && self.words_so_far - path.first <= WORDS as u64
            && older == Link::default()
    }

    /// # Safety
    /// As [`Paths::find`].
    #[inline(always)]
    unsafe fn holds(&self, place: usize, from: Place) -> bool {
        let path = self.path(place);
        let begins = path.words != 0
            && (path.from.sp, path.from.pc) == (from.sp, from.pc)
            && (path.from.bp == from.bp || !path.by_bp)
            && self.words_so_far - path.first <= WORDS as u64;
        if !begins {
            return false;
        }
        // One loop for the own words and all blocks: few lines of code.
        let (mut words, mut older) = (self.own_words(path), path.older);
        loop {
            // SAFETY: each word was on the thread's stack, and not newer than `path.from`, which is `from`: by the
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
    fn own_words(&self, path: &Path) -> &[Word] {
        let first = path.first as usize % WORDS;
        let words = self.words.get(first..first + usize::from(path.words));
        words.unwrap_or_default()
    }

    /// Remembers a stack that has just been walked.
    pub(super) fn add(&mut self, walked: &Walked<'_>) {
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
            // What is left over are the oldest words once more.
            let newest_first = own.iter().rev().chain(own.iter().cycle());
            for (place, word) in places.iter_mut().zip(newest_first) {
                *place = *word;
            }
        }
        let places = Self::places(walked.from);
        let free = (places..places + WAYS).find(|place| !self.is_whole(self.path(*place)));
        let place = free.unwrap_or_else(|| {
            self.turn = self.turn.wrapping_add(1);
            places + usize::from(self.turn) % WAYS
        });
        let next = self.path(place).next;
        if let (Some(path), Some(kept)) = (self.paths.get_mut(place), self.kept.get_mut(place)) {
            *kept = bits(own_kept);
            *path = Path {
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
        // The one that was made first makes room.
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

    /// What was noted of a way, if `by` noted it.
    #[inline(always)]
    pub(super) fn noted(&self, place: usize, by: u64) -> Option<u32> {
        let note = self.path(place).note;
        (note != 0 && self.noted_by == by).then_some(note)
    }

    /// Notes something of a way. What others noted is forgotten.
    pub(super) fn note(&mut self, place: usize, by: u64, note: u32) {
        if self.noted_by != by {
            self.paths.iter_mut().for_each(|path| path.note = 0);
            self.noted_by = by;
        }
        if let Some(path) = self.paths.get_mut(place) {
            path.note = note;
        }
    }

    /// The frames of a way that was just found and are kept, the newest first.
    pub(super) fn frames(&self, place: usize) -> impl Iterator<Item = u64> {
        let path = self.path(place);
        let own = kept_of(
            self.own_words(path),
            self.kept.get(place).copied().unwrap_or_default(),
        );
        let next = |block: &&Block| self.block(block.older);
        let blocks = core::iter::successors(self.block(path.older), next);
        let older = blocks
            .take_while(|block| block.mine != Link::default())
            .flat_map(|block| kept_of(&block.words, block.kept.into()));
        let first = path.first_is_kept.then_some(path.from.pc);
        first.into_iter().chain(own).chain(older)
    }
}

/// What is held by those words that the bits stand for.
fn kept_of(words: &[Word], bits: u64) -> impl Iterator<Item = u64> {
    let all = words.iter().take(u64::BITS as usize).enumerate();
    all.filter(move |(place, _)| bits >> place & 1 != 0)
        .map(|(_, word)| word.held)
}

/// A bit for each, the last one the lowest: words are kept the newest first.
fn bits(kept: &[bool]) -> u64 {
    kept.iter()
        .fold(0, |bits, kept| bits << 1 | u64::from(*kept))
}

/// Where so many more are to go, all in a row, in a ring of `size`.
fn room(so_far: &mut u64, count: usize, size: usize) -> u64 {
    let size = size as u64;
    if *so_far % size + count as u64 > size {
        *so_far = so_far.next_multiple_of(size);
    }
    let first = *so_far;
    *so_far += count as u64;
    first
}

#[cfg(test)]
mod tests {
    use std::alloc::{Layout, alloc_zeroed, handle_alloc_error};

    use super::*;

    fn paths() -> Box<Paths> {
        let layout = Layout::new::<Paths>();
        // SAFETY: the layout is not of size 0; all zeros are no ways.
        unsafe {
            let new = alloc_zeroed(layout).cast::<Paths>();
            if new.is_null() {
                handle_alloc_error(layout);
            }
            Box::from_raw(new)
        }
    }

    /// Memory that is no stack, but may be read as one.
    struct Memory(Vec<u64>);

    impl Memory {
        fn words(&self) -> Vec<Word> {
            let words = self.0.iter();
            let word = |place: &u64| Word {
                at: place as *const u64 as u64,
                held: *place,
            };
            words.map(word).collect()
        }

        fn add(&self, paths: &mut Paths, from: Place) {
            let words = self.words();
            paths.add(&Walked {
                from,
                by_bp: true,
                words: &words,
                kept: &vec![true; words.len()],
                first_is_kept: false,
                hash: words.iter().map(|word| word.held).sum(),
                len: words.len(),
            });
        }
    }

    fn find(paths: &mut Paths, from: Place) -> Option<usize> {
        // SAFETY: all words of these tests are in a vector that is alive.
        unsafe { paths.find(from) }
    }

    fn place(sp: u64) -> Place {
        let (pc, bp) = (7, 9);
        Place { pc, sp: 8 * sp, bp }
    }

    #[test]
    fn every_word_is_compared() {
        for count in [1, 3, 4, 15, 16, 47, 48, 49, 80, 333, 1100] {
            let (mut paths, mut memory) = (paths(), Memory((1..=count).collect()));
            memory.add(&mut paths, place(1));
            let found = find(&mut paths, place(1)).unwrap();
            let newest_first: Vec<u64> = (1..=count).rev().collect();
            assert_eq!(paths.frames(found).collect::<Vec<_>>(), newest_first);
            for word in 0..memory.0.len() {
                memory.0[word] += 1;
                assert_eq!(find(&mut paths, place(1)), None, "{word} of {count}");
                memory.0[word] -= 1;
            }
            assert_eq!(find(&mut paths, place(1)), Some(found));
            let Place { pc, sp, bp } = place(1);
            for other in [(pc + 1, sp, bp), (pc, sp + 8, bp), (pc, sp, bp + 1)] {
                let (pc, sp, bp) = other;
                assert_eq!(find(&mut paths, Place { pc, sp, bp }), None);
            }
        }
    }

    /// The same newest words on thousands of other older ones, so that blocks and own words make room for others.
    #[test]
    fn what_made_room_is_not_taken_for_what_is_there_now() {
        let (mut paths, mut memory) = (paths(), Memory(vec![5; 130]));
        let stack = |memory: &mut Memory, number: u64| {
            memory.0[..110].fill(number);
        };
        const STACKS: u64 = 1500;
        for number in 0..STACKS {
            stack(&mut memory, number);
            memory.add(&mut paths, place(number));
        }
        let mut found = 0;
        for now in (0..STACKS).rev().step_by(7) {
            stack(&mut memory, now);
            for number in 0..STACKS {
                if find(&mut paths, place(number)).is_some() {
                    assert_eq!(number, now);
                    found += 1;
                }
            }
        }
        assert!((2..200).contains(&found), "{found}");
    }

    #[test]
    fn stacks_that_begin_alike_share_their_blocks() {
        let (mut paths, mut memory) = (paths(), Memory((0..200).collect()));
        for newest in 0..50 {
            memory.0[199] = 1000 + newest;
            memory.add(&mut paths, place(1));
            assert!(find(&mut paths, place(1)).is_some());
        }
        assert_eq!(paths.blocks_so_far, 5);
        // Blocks of the same words on top of others are others.
        for oldest in 0..600 {
            memory.0[0] = 1000 + oldest;
            memory.add(&mut paths, place(1));
            assert!(find(&mut paths, place(1)).is_some());
        }
    }

    #[test]
    fn notes_are_of_one_way_and_of_who_noted_them() {
        let (mut paths, memory) = (paths(), Memory(vec![5; 60]));
        let [a, b] = [1, 2].map(|sp| {
            memory.add(&mut paths, place(sp));
            find(&mut paths, place(sp)).unwrap()
        });
        assert_eq!(paths.noted(a, 0), None);
        paths.note(a, 70, 3);
        assert_eq!((paths.noted(a, 70), paths.noted(b, 70)), (Some(3), None));
        assert_eq!(paths.noted(a, 71), None);
        paths.note(b, 71, 4);
        assert_eq!((paths.noted(a, 71), paths.noted(b, 71)), (None, Some(4)));
        assert_eq!((paths.noted(a, 70), paths.noted(b, 70)), (None, None));
        // Another stack in the place of one that was noted.
        paths.clear();
        memory.add(&mut paths, place(2));
        let again = find(&mut paths, place(2)).unwrap();
        assert_eq!(paths.noted(again, 71), None);
    }
}
