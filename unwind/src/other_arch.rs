//! The unwinder for processors without unwind rules in this crate: the system's.
//!
//! To support another processor (aarch64: CFA on sp or x29, the return address in x30 or beside the
//! saved x29, pointer authentication bits to be removed), add a module with an `Unwinder` of these six
//! functions. Its `take` must return the same frames and the same hash as [`system::take`].

use crate::modules::Span;
use crate::{FRAMES, Registers, Stack, system};

/// One thread's unwinder.
pub struct Unwinder {
    frames: [u64; FRAMES],
    len: usize,
    so_far: u64,
}

impl Unwinder {
    /// Continues with another thread.
    pub fn change_thread(&mut self) {}

    /// Captures the calling thread's stack. Frames in `own` are omitted.
    pub fn take(&mut self, _: Option<Registers>, own: Option<Span>) -> Stack {
        let (stack, len) = system::take(&mut self.frames, &own.unwrap_or(Span::NONE));
        self.len = len;
        self.so_far += 1;
        stack
    }

    /// The note on the last stack: always None.
    pub fn noted(&self, _: u64) -> Option<u32> {
        None
    }

    /// Does nothing, because no stack is remembered here.
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

    /// The number of stacks that the system's unwinder had to capture: all.
    pub fn system_stacks(&self) -> u64 {
        self.so_far
    }
}
