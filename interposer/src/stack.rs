//! The stacks that an event carries: the thread's own, or those of the node of PyTorch's autograd that runs on it.

use gpumem_capture::{StackId, Writer};
use gpumem_stacks::Stacks;
use gpumem_unwind::Registers;

use crate::{autograd, stacks, thread};

/// The Python and the native stack of the calling thread; [`StackId::NONE`] for one that is not wanted,
/// not there, or could not be defined in the capture. Where a node of PyTorch's autograd runs on the
/// thread, the first of them says which, and which forward line made it.
///
/// Call it with no lock of the host's held that a full ring must not hold up (a definition may wait
/// 0.1 s), and not from a signal handler.
#[inline]
pub(crate) fn take(writer: &'static Writer, want: Stacks) -> (StackId, StackId) {
    take_at(writer, want, thread::with(|thread| thread.entry.get()))
}

/// The same where a call was entered from `entry`.
#[inline]
pub(crate) fn take_at(
    writer: &'static Writer,
    want: Stacks,
    entry: Registers,
) -> (StackId, StackId) {
    if want == Stacks::Off {
        return (StackId::NONE, StackId::NONE);
    }
    let from = (entry.pc != 0).then_some(entry);
    let (python, native) = stacks::own(writer, want, from);
    (autograd::owner(writer, python), native)
}
