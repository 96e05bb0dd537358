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
mod hash;
mod interner;
mod modules;
mod segment;
mod sink;
mod table;
#[cfg(test)]
mod tests;

use gpumem_capture::{StackId, Writer};

use crate::thread;

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

/// The Python and the native stack of the calling thread; [`StackId::NONE`] for one that is not wanted,
/// not there, or could not be defined in the capture.
///
/// Call it with no lock of the host's held that a full ring must not hold up (a definition may wait
/// 0.1 s), and not from a signal handler.
#[inline]
pub fn take(writer: &'static Writer, want: Stacks) -> (StackId, StackId) {
    let entry = thread::with(|thread| thread.entry.get());
    INTERNER.take(writer, want, (entry.pc != 0).then_some(entry))
}
