//! Ways that were walked before: from where a stack was taken to the frames that the stack before it had too.
//!
//! A training takes its stacks at the same places in every step, with the same stack pointer, and between that
//! place and the frames of the interpreter lie some twenty frames of the library's own code, others at each
//! place. To walk them by their rules is a chain of loads in which each waits for the one before. A way that
//! was walked once is a list of words of the stack and of what they held: if they still do, the walk would
//! find the same frames, and all of them are loaded at once.
//!
//! A word belongs to the list if the walk's course depends on it: return addresses, saved CFAs, and saved frame
//! pointers that an older frame goes by. What a register held that nobody went by is of no account.

/// Ways that are remembered, a multiple of [`WAYS`].
const PATHS: usize = 512;
/// Places that a way may be at, by where it begins.
const WAYS: usize = 4;
/// Words of all ways together; each has a dozen to a hundred.
const WORDS: usize = 1 << 13;
/// Return addresses of all ways together.
const FRAMES: usize = 1 << 13;
/// Frames of the shortest way that is worth a place.
pub(super) const SHORTEST: usize = 4;
/// The longest.
pub(super) const LONGEST: usize = 96;

/// A word of the stack, and what it held.
#[derive(Clone, Copy, Debug, Default)]
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
    /// Where its words are, counted without wrapping.
    first: u64,
    words: u16,
    /// How many of its frames are kept.
    pub(super) kept: u16,
    /// The way that was taken after this one the last time.
    next: u16,
    /// Whether its course depends on the frame pointer that it begins with.
    by_bp: bool,
    /// How many of the older frames the stack had then.
    pub(super) older: u32,
    /// The newest of those, their hash, and that of the whole stack.
    to: Place,
    pub(super) before: u64,
    pub(super) hash: u64,
    first_frame: u64,
    /// Where the frame pointer of the newest of those was read; 0: it is that of `from`.
    bp_slot: u64,
}

impl Path {
    /// The newest of the older frames, where the way begins at `from` and its words hold what they held.
    #[inline(always)]
    pub(super) fn to(&self, from: Place) -> Place {
        let bp = match self.bp_slot {
            0 => from.bp,
            // SAFETY: on the way, whose words were just read.
            slot => unsafe { *(slot as *const u64) },
        };
        Place { bp, ..self.to }
    }
}

/// A way as it was walked.
pub(super) struct Walked<'a> {
    pub(super) from: Place,
    pub(super) by_bp: bool,
    pub(super) words: &'a [Word],
    /// The frames that are kept, the newest first.
    pub(super) frames: &'a [u64],
    pub(super) older: usize,
    pub(super) to: Place,
    pub(super) bp_slot: u64,
    pub(super) before: u64,
    pub(super) hash: u64,
}

/// The ways of one thread. All zeros are none.
pub(super) struct Paths {
    paths: [Path; PATHS],
    words: [Word; WORDS],
    frames: [u64; FRAMES],
    /// Words and frames so far.
    words_so_far: u64,
    frames_so_far: u64,
    /// The way that was taken last.
    last: u16,
    /// Where the next one goes among the places that it may be at.
    turn: u16,
    /// Whether there are any.
    used: bool,
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
    #[inline]
    pub(super) unsafe fn find(&mut self, from: Place) -> Option<usize> {
        let expected = usize::from(self.path(usize::from(self.last)).next);
        // SAFETY: promised by the caller.
        if unsafe { self.holds(expected, from) } {
            self.last = expected as u16;
            return Some(expected);
        }
        let places = Self::places(from);
        for place in places..places + WAYS {
            // SAFETY: as above.
            if place != expected && unsafe { self.holds(place, from) } {
                self.follow(place);
                return Some(place);
            }
        }
        None
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

    /// # Safety
    /// As [`Paths::find`].
    #[inline(always)]
    unsafe fn holds(&self, place: usize, from: Place) -> bool {
        let path = self.path(place);
        let begins = path.words != 0
            && (path.from.sp, path.from.pc) == (from.sp, from.pc)
            && (path.from.bp == from.bp || !path.by_bp)
            && self.words_so_far - path.first <= WORDS as u64
            && self.frames_so_far - path.first_frame <= FRAMES as u64;
        if !begins {
            return false;
        }
        let first = path.first as usize % WORDS;
        let words = self.words.get(first..first + usize::from(path.words));
        words.unwrap_or_default().iter().all(|word| {
            // SAFETY: the word was on the thread's stack, and not newer than `path.from`, which is `from`: by the
            // caller's promise it can be read.
            unsafe { *(word.at as *const u64) == word.held }
        })
    }

    /// Remembers a way that has just been walked.
    pub(super) fn add(&mut self, walked: &Walked<'_>) {
        let (words, frames) = (walked.words.len(), walked.frames.len());
        if words == 0 || words > WORDS / 8 || frames > FRAMES / 8 {
            return;
        }
        let first = room(&mut self.words_so_far, words, WORDS);
        let first_frame = room(&mut self.frames_so_far, frames, FRAMES);
        let start = first as usize % WORDS;
        if let Some(place) = self.words.get_mut(start..start + words) {
            place.copy_from_slice(walked.words);
        }
        let start = first_frame as usize % FRAMES;
        if let Some(place) = self.frames.get_mut(start..start + frames) {
            place.copy_from_slice(walked.frames);
        }
        let places = Self::places(walked.from);
        let all = places..places + WAYS;
        let free = all.clone().find(|place| {
            let path = self.path(*place);
            path.words == 0 || self.words_so_far - path.first > WORDS as u64
        });
        let place = free.unwrap_or_else(|| {
            self.turn = self.turn.wrapping_add(1);
            places + usize::from(self.turn) % WAYS
        });
        let next = self.path(place).next;
        if let Some(path) = self.paths.get_mut(place) {
            *path = Path {
                from: walked.from,
                first,
                words: words as u16,
                kept: frames as u16,
                next,
                by_bp: walked.by_bp,
                older: walked.older as u32,
                to: walked.to,
                before: walked.before,
                hash: walked.hash,
                first_frame,
                bp_slot: walked.bp_slot,
            };
        }
        self.used = true;
        self.follow(place);
    }

    /// Puts a way on other frames: so many, the newest of which is `to` and has the hash `before`; that of the whole
    /// stack is `hash`.
    pub(super) fn rebase(&mut self, place: usize, older: usize, to: Place, before: u64, hash: u64) {
        if let Some(path) = self.paths.get_mut(place) {
            (path.older, path.to) = (older as u32, to);
            (path.before, path.hash) = (before, hash);
        }
    }

    /// The frames of a way that was just found and are kept, the newest first.
    pub(super) fn frames(&self, place: usize) -> &[u64] {
        let path = self.path(place);
        let first = path.first_frame as usize % FRAMES;
        let frames = self.frames.get(first..first + usize::from(path.kept));
        frames.unwrap_or_default()
    }
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
