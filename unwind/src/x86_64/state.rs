//! Frames of a walk, and of the last stack.

use super::stack_cache::{Place, Word};
use crate::{FRAMES, chain};

/// How many frames more than are kept a walk goes through: those that are left out, and room for a deep
/// stack to become less deep before it has to be walked anew.
pub(super) const SPARE: usize = 256;
/// Frames of one walk.
pub(super) const WALK: usize = FRAMES + SPARE;

/// A frame on the way to one that is known. Slots are addresses on the stack; 0: none.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Fresh {
    pub(super) at: Place,
    /// Where the older frame pointer was read.
    pub(super) bp_slot: u64,
    /// Where the CFA was read.
    pub(super) cfa_slot: u64,
    /// Whether the frame pointer was gone by.
    pub(super) by_bp: bool,
}

/// A frame of the last stack.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct State {
    pub(super) at: Place,
    /// Of this frame and all older ones.
    pub(super) hash: u64,
    /// How many of those are kept.
    pub(super) kept: u16,
    /// Whether the walk from here goes by the frame pointer; if not, it is of no account what that is.
    pub(super) by_bp: bool,
    /// How many words show that all those are as they were, if this frame is.
    pub(super) words: u32,
}

impl State {
    /// Whether the walk from this frame on is that from `at` on, where the words are the same.
    #[inline(always)]
    pub(super) fn is_at(&self, at: Place) -> bool {
        let Place { pc, sp, bp } = self.at;
        (pc, sp) == (at.pc, at.sp) && (bp == at.bp || !self.by_bp)
    }

    /// The frame that lies on this one.
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

    /// Gives the words by which a walk comes from `frame` to this one.
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

/// `states[..keep]` goes on where `fresh[..len]` ends.
pub(super) struct Joined {
    pub(super) keep: usize,
    pub(super) len: usize,
}

/// How else a walk ended.
pub(super) enum Otherwise {
    /// The stack ends where `fresh[..len]` ends, for now: not by a rule, but by what some word held.
    Ended { len: usize },
    /// After `len` frames the next word, at `slot`, is not on the thread's stack.
    Outside { slot: u64, len: usize },
    /// No rule is for the return address of the last of `len` frames.
    Unknown { pc: u64, len: usize },
    /// There was no room for older frames.
    Full,
    /// Only the system's unwinder can.
    Other,
}
