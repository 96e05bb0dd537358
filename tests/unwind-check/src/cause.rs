//! The causes for which a stack is taken by the system's unwinder.

use core::sync::atomic::{AtomicU64, Ordering};

use gpumem_unwind::Stack;
use gpumem_unwind::modules::{self, Span};

use crate::counts::Cause;
use crate::thread::Tools;

/// Return addresses at which gpumem's unwinder stopped, and their counts; 0: an unused entry.
pub(crate) static CULPRITS: [[AtomicU64; 2]; 64] =
    [const { [AtomicU64::new(0), AtomicU64::new(0)] }; 64];

/// The cause for the last stack.
pub(crate) fn of(tools: &Tools, own: Span) -> Cause {
    let [start, end] = tools.stack;
    let mut frames = tools.reference.frames().iter();
    if frames
        .clone()
        .any(|frame| !(start..=end).contains(&frame.sp))
    {
        return Cause::OtherStack;
    }
    if frames.clone().any(|frame| is_signal_return(frame.pc)) {
        return Cause::Signal;
    }
    if frames.any(|frame| modules::find(frame.pc - 1).is_none() && !own.contains(frame.pc)) {
        return Cause::NoModule;
    }
    Cause::Rule
}

/// Whether a signal handler returns to `pc`.
fn is_signal_return(pc: u64) -> bool {
    // mov rax, 15; syscall
    const CODE: [u8; 9] = [0x48, 0xc7, 0xc0, 0x0f, 0, 0, 0, 0x0f, 0x05];
    if modules::find(pc).is_none_or(|module| module.end - pc < 9) {
        return false;
    }
    // SAFETY: code of a loaded module that is on the stack, up to its end.
    unsafe { (pc as *const [u8; 9]).read_unaligned() == CODE }
}

/// Counts the oldest frame that gpumem's unwinder cannot express.
pub(crate) fn find_culprit(tools: &mut Tools, own: Span) {
    let culprit = tools.reference.frames().iter().rev().find(|frame| {
        let before = tools.second.system_stacks();
        let Stack { .. } = tools.second.take(Some(**frame), Some(own));
        tools.second.system_stacks() != before
    });
    let Some(culprit) = culprit.map(|frame| frame.pc) else {
        return;
    };
    for [pc, count] in &CULPRITS {
        match pc.compare_exchange(0, culprit, Ordering::AcqRel, Ordering::Acquire) {
            Err(other) if other != culprit => continue,
            _ => {
                count.fetch_add(1, Ordering::Relaxed);
                return;
            }
        }
    }
}
