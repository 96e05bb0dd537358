//! The stacks that an event carries: the thread's own, or those of the node of PyTorch's autograd that runs on it.

use gpumem_capture::StackId;
use gpumem_stacks::Stacks;
use gpumem_unwind::Registers;

use crate::session::Session;
use crate::{backward, stacks, thread};

/// The Python and the native stack of the calling thread; [`StackId::NONE`] for one that is not wanted,
/// not there, or could not be defined in the capture. Where a node of PyTorch's autograd runs on the
/// thread, the first of them says which, and which forward line made it.
///
/// Call it with no lock of the host's held that a full ring must not hold up (a definition may wait
/// 0.1 s), and not from a signal handler.
#[inline]
pub(crate) fn take(session: &'static Session) -> (StackId, StackId) {
    take_at(
        session,
        session.stacks,
        thread::with(|thread| thread.entry.get()),
    )
}

/// The same where a call was entered from `entry`.
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
