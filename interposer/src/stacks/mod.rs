//! The stacks of the session.

mod backward;

use gpumem_capture::StackId;
use gpumem_stacks::Stacks;
use gpumem_unwind::Registers;

use crate::session::Session;

pub(crate) use backward::Backward;

/// Defines the module that holds `caller`, the return address of a call.
pub(crate) fn know_caller(session: &'static Session, caller: u64) {
    if caller != 0 {
        session.interner.know_modules(session.writer, &[caller]);
    }
}

/// Defines the module that holds an image of code for the card; 0: the image is not in memory.
pub(crate) fn know_image(session: &'static Session, image: u64) {
    if image != 0 {
        // Modules are looked up by return addresses, which are one past the intended address.
        session
            .interner
            .know_modules(session.writer, &[image.saturating_add(1)]);
    }
}

/// The Python stack of the calling thread only, regardless of a running node; none as in [`own`].
#[inline]
pub(crate) fn own_python(session: &'static Session) -> StackId {
    session
        .interner
        .take(session.writer, Stacks::Python, None)
        .0
}

/// The id of the stack for a node's allocation: see [`Backward::id`].
#[inline]
pub(crate) fn backward(
    session: &'static Session,
    made: &Backward,
    name: impl FnOnce(&mut [u8]) -> usize,
) -> StackId {
    made.id(&session.interner, session.writer, name)
}

/// The Python and the native stack of the calling thread, which entered the call from `entry` (none: unknown).
#[inline]
pub(crate) fn own(
    session: &'static Session,
    want: Stacks,
    entry: Option<Registers>,
) -> (StackId, StackId) {
    session.interner.take(session.writer, want, entry)
}
