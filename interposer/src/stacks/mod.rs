//! The process's stacks: those of its one capture.

mod backward;

use gpumem_capture::{StackId, Writer};
use gpumem_stacks::{Interner, Stacks};
use gpumem_unwind::Registers;

pub(crate) use backward::Backward;

/// The process's one interner: there is one capture in a process.
static INTERNER: Interner = Interner::new();

/// Defines the module that holds `caller`, the return address of a call.
pub(crate) fn know_caller(writer: &'static Writer, caller: u64) {
    if caller != 0 {
        INTERNER.know_modules(writer, &[caller]);
    }
}

/// Defines the module that holds an image of code for the card; 0: it is not in memory.
pub(crate) fn know_image(writer: &'static Writer, image: u64) {
    if image != 0 {
        // Modules are looked for by return addresses, which lie one past what is meant.
        INTERNER.know_modules(writer, &[image.saturating_add(1)]);
    }
}

/// The Python stack of the calling thread alone, whatever runs on it; none as in [`own`].
#[inline]
pub(crate) fn own_python(writer: &'static Writer) -> StackId {
    INTERNER.take(writer, Stacks::Python, None).0
}

/// The number of what a node made: see [`Backward::id`].
#[inline]
pub(crate) fn backward(
    writer: &'static Writer,
    made: &Backward,
    name: impl FnOnce(&mut [u8]) -> usize,
) -> StackId {
    made.id(&INTERNER, writer, name)
}

/// The Python and the native stack of the calling thread, which entered the call from `entry` (none: not known).
#[inline]
pub(crate) fn own(
    writer: &'static Writer,
    want: Stacks,
    entry: Option<Registers>,
) -> (StackId, StackId) {
    INTERNER.take(writer, want, entry)
}
