//! Frames of a walk, and of the last stack.

use super::stack_cache::{Place, Word};
use crate::{FRAMES, chain};

/// The number of frames that a walk visits beyond those that are kept: frames that are omitted, and
/// room for a deep stack to become less deep before it must be walked again.
pub(super) const SPARE: usize = 256;
/// Frames of one walk.
pub(super) const WALK: usize = FRAMES + SPARE;

/// A frame on the way to a known one. Slots are addresses on the stack; 0 for no slot.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Fresh {
    pub(super) at: Place,
    /// Where the older frame pointer was read.
    pub(super) bp_slot: u64,
    /// Where the CFA was read.
    pub(super) cfa_slot: u64,
    /// Whether the frame pointer was used.
    pub(super) by_bp: bool,
}

/// A frame of the last stack.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct State {
    pub(super) at: Place,
    /// The hash of this frame and all older ones.
    pub(super) hash: u64,
    /// How many of those are kept.
    pub(super) kept: u16,
    /// Whether the walk from here uses the frame pointer; if not, its value does not matter.
    pub(super) by_bp: bool,
    /// The number of words that show that all older frames are unchanged, if this frame is.
    pub(super) words: u32,
}

impl State {
    /// Whether the walk from this frame on equals the one from `at` on, with unchanged words.
    #[inline(always)]
    pub(super) fn is_at(&self, at: Place) -> bool {
        let Place { pc, sp, bp } = self.at;
        (pc, sp) == (at.pc, at.sp) && (bp == at.bp || !self.by_bp)
    }

    /// The frame on top of this one.
    #[inline(always)]
    pub(super) fn newer(&self, frame: &Fresh, is_own: bool) -> Self {
        Self {
            at: frame.at,
            hash: match is_own {
                true => self.hash,
                false => chain(self.hash, frame.at.pc),
            },
            kept: self.kept + u16::from(!is_own),
            by_bp: frame.by_bp || (frame.bp_slot == 0 && self.by_bp),
            words: self.words,
        }
    }

    /// Passes the words on which the walk from `frame` to this one depends to `take`.
    #[inline(always)]
    pub(super) fn words_from(&self, frame: &Fresh, mut take: impl FnMut(Word)) {
        let Place { pc, sp, bp } = self.at;
        take(Word {
            at: sp.wrapping_sub(8),
            held: pc,
        });
        if self.by_bp && frame.bp_slot != 0 {
            take(Word {
                at: frame.bp_slot,
                held: bp,
            });
        }
        if frame.cfa_slot != 0 {
            take(Word {
                at: frame.cfa_slot,
                held: sp,
            });
        }
    }
}

/// `states[..keep]` continues where `fresh[..len]` ends.
pub(super) struct Joined {
    pub(super) keep: usize,
    pub(super) len: usize,
}

/// How else a walk ended.
pub(super) enum Otherwise {
    /// The stack ends where `fresh[..len]` ends, for now: because of the value of some word, not a
    /// rule.
    Ended { len: usize },
    /// After `len` frames the next word, at `slot`, is not on the thread's stack.
    Outside { slot: u64, len: usize },
    /// There is no rule for the return address of the last of `len` frames.
    Unknown { pc: u64, len: usize },
    /// There was no room for older frames.
    Full,
    /// It does not begin on the thread's own stack.
    Foreign,
}
