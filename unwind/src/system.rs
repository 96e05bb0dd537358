//! A stack by the system's unwinder, in the form of the unwinders of this crate.

use crate::modules::Span;
use crate::{FRAMES, Stack, capture, chain};

/// Writes the calling thread's stack to `out`, the newest frame first, without the frames in `own`.
pub(crate) fn take(out: &mut [u64; FRAMES], own: &Span) -> (Stack, usize) {
    let mut all = [0; FRAMES + 64];
    let captured = capture(&mut all, 0);
    let all = all.get(..captured.len).unwrap_or_default();
    let mut kept = all.iter().filter(|pc| !own.contains(pc.wrapping_sub(1)));
    let mut len = 0;
    for (place, pc) in out.iter_mut().zip(&mut kept) {
        *place = *pc;
        len += 1;
    }
    let truncated = captured.truncated || kept.next().is_some();
    let frames = out.get(..len).unwrap_or_default();
    let stack = Stack {
        hash: frames.iter().rev().fold(0, |hash, pc| chain(hash, *pc)),
        len,
        truncated,
    };
    (stack, len)
}
