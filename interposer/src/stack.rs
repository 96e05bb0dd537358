//! The stacks of an event: the thread's own, or those of the node of PyTorch's autograd that runs on it.

use gpumem_capture::StackId;
use gpumem_stacks::Stacks;
use gpumem_unwind::Registers;

use crate::session::Session;
use crate::{backward, stacks, thread};

/// The Python and the native stack of the calling thread; [`StackId::NONE`] for a stack that is not wanted, does
/// not exist, or could not be defined in the capture. If a node of PyTorch's autograd runs on the thread, the
/// first stack refers to it and to the forward line that created it.
///
/// Do not call it with a lock of the host held that a full ring must not block (a definition may wait 0.1 s), or
/// from a signal handler.
#[inline]
pub(crate) fn take(session: &'static Session) -> (StackId, StackId) {
    take_at(
        session,
        session.stacks,
        thread::with(|thread| thread.entry.get()),
    )
}

/// The same for a call that was entered from `entry`.
#[inline]
pub(crate) fn take_at(
    session: &'static Session,
    want: Stacks,
    entry: Registers,
) -> (StackId, StackId) {
    if want == Stacks::Off {
        return (StackId::NONE, StackId::NONE);
    }
    let from = (entry.pc != 0).then_some(entry);
    let (python, native) = stacks::own(session, want, from);
    (backward::owner(session, python), native)
}
