//! The stacks that an event carries: taken, told apart by one hash each, and defined in the capture
//! the first time that they are seen.
//!
//! # Design constraints
//! - A stack that has been seen costs a walk, a hash and one look-up: no lock, no allocation.
//! - An id is handed out only once its definition is recorded, so no event refers to what the capture
//!   does not have. If the definition cannot be recorded the event has no stack, and the next event
//!   tries again.
//! - Two threads that meet the same new stack get the same id.
//! - Nothing is torn down.

mod buffers;
mod codes;
pub(crate) mod hash;
mod interner;
mod modules;
mod segment;
mod sink;
mod table;
#[cfg(test)]
mod tests;

use gpumem_capture::{StackId, Writer};
use gpumem_unwind::Registers;

use crate::{autograd, thread};

pub use interner::Interner;
pub use sink::DefinitionSink;

/// Which stacks events carry (`GPUMEM_STACKS`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Stacks {
    /// Both.
    #[default]
    Mixed,
    /// Python frames only.
    Python,
    /// Native frames only.
    Native,
    /// None.
    Off,
}

impl Stacks {
    /// Whether Python frames are wanted.
    pub fn python(self) -> bool {
        matches!(self, Self::Mixed | Self::Python)
    }

    /// Whether native frames are wanted.
    pub fn native(self) -> bool {
        matches!(self, Self::Mixed | Self::Native)
    }

    /// The value's name, as `GPUMEM_STACKS` has it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Mixed => "mixed",
            Self::Python => "python",
            Self::Native => "native",
            Self::Off => "off",
        }
    }

    /// The inverse of [`Stacks::name`].
    pub fn from_name(name: &str) -> Option<Self> {
        [Self::Mixed, Self::Python, Self::Native, Self::Off]
            .into_iter()
            .find(|stacks| stacks.name() == name)
    }
}

/// What a node of PyTorch's autograd made while it ran: see `DefKind::BACKWARD` of the capture.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Backward {
    /// Stack of the forward that made the node; none if there is none.
    pub(crate) forward: StackId,
    /// Which forward line made the node is lost.
    pub(crate) lost: bool,
    /// The thread's own Python stack.
    pub(crate) own: StackId,
    /// How many of its newest frames are newer than the node's run.
    pub(crate) newer: u32,
    /// Address of the table of the class's virtual functions.
    pub(crate) class: usize,
}

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

/// The Python stack of the calling thread alone, whatever runs on it; none as in [`take`].
#[inline]
pub(crate) fn own_python(writer: &'static Writer) -> StackId {
    INTERNER.take(writer, Stacks::Python, None).0
}

/// The number of what a node made: see [`Interner::backward`].
#[inline]
pub(crate) fn backward(
    writer: &'static Writer,
    made: &Backward,
    name: impl FnOnce(&mut [u8]) -> usize,
) -> StackId {
    INTERNER.backward(writer, made, name)
}

/// The Python and the native stack of the calling thread; [`StackId::NONE`] for one that is not wanted,
/// not there, or could not be defined in the capture. Where a node of PyTorch's autograd runs on the
/// thread, the first of them says which, and which forward line made it.
///
/// Call it with no lock of the host's held that a full ring must not hold up (a definition may wait
/// 0.1 s), and not from a signal handler.
#[inline]
pub fn take(writer: &'static Writer, want: Stacks) -> (StackId, StackId) {
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
    let (python, native) = INTERNER.take(writer, want, from);
    (autograd::owner(writer, python), native)
}
