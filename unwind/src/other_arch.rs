//! The unwinder of processors that have no rules here: the system's.
//!
//! This is the seam for another one (aarch64: CFA on sp or x29, the return address in x30 or beside the
//! saved x29, pointer authentication bits to be taken off): a module with an `Unwinder` of these six
//! functions, whose `take` gives the same frames and the same hash as [`system::take`].

use crate::modules::Span;
use crate::{FRAMES, Registers, Stack, system};

/// One thread's unwinder.
pub struct Unwinder {
    frames: [u64; FRAMES],
    len: usize,
    so_far: u64,
}

impl Unwinder {
    /// For another thread from now on.
    pub fn change_thread(&mut self) {}

    /// Takes the calling thread's stack. Frames in `own` are left out.
    pub fn take(&mut self, _: Option<Registers>, own: Option<Span>) -> Stack {
        let (stack, len) = system::take(&mut self.frames, &own.unwrap_or(Span::NONE));
        self.len = len;
        self.so_far += 1;
        stack
    }

    /// What was noted of the last stack: nothing.
    pub fn noted(&self, _: u64) -> Option<u32> {
        None
    }

    /// No stack is remembered here, so nothing is noted.
    pub fn note(&mut self, _: u64, _: u32) {}

    /// Writes the frames of the last stack, the newest first, as many as there is room for.
    pub fn frames(&self, out: &mut [u64]) -> usize {
        let frames = self.frames.get(..self.len).unwrap_or_default();
        frames
            .iter()
            .zip(out)
            .map(|(frame, place)| *place = *frame)
            .count()
    }

    /// How many stacks the system's unwinder had to take: all.
    pub fn system_stacks(&self) -> u64 {
        self.so_far
    }
}
