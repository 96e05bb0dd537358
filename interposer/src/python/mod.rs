//! The Python stack of the calling thread, read from the interpreter's own structures.
//!
//! # Design constraints
//! - Never the GIL, never a Python call, but for two that read one word each and need no lock:
//!   "is the interpreter finalizing" and "which thread state is mine".
//! - A thread's own frames cannot change while it is inside native code: no lock is needed to walk
//!   them.
//! - The interpreter may end during a walk: what it frees of a thread is read between two questions whether it is
//!   finalizing, and discarded after a yes (docs/python-stacks.md, "When the interpreter ends").
//! - Never a guess: an interpreter whose layout is not known for certain gets no Python stacks, and the
//!   account says so once.
//!
//! # Not suitable for
//! Other threads' stacks, other processes, signal handlers that may have interrupted the interpreter.

pub mod code;
mod known;
mod layout;
mod memory;
mod offsets;
mod runtime;
mod text;
mod thread;
mod version;
mod walk;

pub use code::CodeText;
pub use known::{Hashed, Looked, Memory};
pub use layout::Layout;
pub use runtime::{Finding, Runtime, finding};
pub use version::Version;
pub use walk::{Frame, Walked};
