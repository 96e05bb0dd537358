//! Reads the Python frames of the calling thread from CPython's own structures: without the GIL, a Python call or a
//! lock. For profilers, allocators and other native code that runs inside Python programs.
//!
//! ```
//! use gpumem_python_frames::{Finding, Frame, finding};
//!
//! /// Writes the calling thread's Python stack, the newest frame first.
//! fn print_stack() {
//!     let Some(Finding::Readable(runtime)) = finding() else {
//!         return; // No interpreter is in this process, or one whose layout is not known.
//!     };
//!     let mut frames = [Frame::default(); 64];
//!     let Some(walked) = runtime.walk(&mut frames) else {
//!         return; // This thread runs no Python.
//!     };
//!     let mut names = Vec::new();
//!     for frame in &frames[..walked.len] {
//!         // SAFETY: no Python code has run on this thread since the walk.
//!         if let Some(code) = unsafe { runtime.code(frame, &mut names) } {
//!             let (file, name) = (String::from_utf8_lossy(code.file), String::from_utf8_lossy(code.name));
//!             println!("{name} ({file}), at byte {} of its code", frame.position.offset());
//!         }
//!     }
//! }
//! print_stack();
//! ```
//!
//! # Parts
//! - [`finding`] finds the interpreter and checks that its layout is known, once in a process.
//! - [`Runtime::walk`] writes the frames, [`Runtime::code`] reads the names and the line table of a frame's code.
//! - [`Runtime::look`] checks with a [`StackMemo`] whether the stack is unchanged since the last look, and returns its
//!   hash otherwise: for programs that see the same stacks again and again.
//! - [`Runtime::note_module_call`]: after it, frames that call a `torch.nn.Module` include the module, which then also
//!   distinguishes stacks.
//! - [`Runtime::frames_of`], [`Runtime::locals_of`], [`Runtime::locals_of_generator`], [`Runtime::names_of`],
//!   [`Runtime::handled_by`]: the variables of frames, for code that holds the GIL.
//! - [`hash`]: the hashes that identify stacks and code objects.
//!
//! # Design constraints
//! - No GIL, and no calls into Python except two that read one word each and need no lock:
//!   `PyGILState_GetThisThreadState`, and `Py_IsFinalizing` where that word is not read directly.
//! - A thread's own frames cannot change while it is inside native code: no lock is needed to walk them.
//! - The interpreter may end during a walk. Thread data that it frees is read between two checks whether it is
//!   finalizing, and discarded if it is (docs/python-stacks.md, "When the interpreter ends").
//! - No guesses: an interpreter whose layout is not known for certain is [`Finding::Declined`].
//! - Nothing here panics. Only the first call of [`finding`], and [`Runtime::code`] for names, allocate.
//!
//! # Not suitable for
//! Other threads' stacks without the GIL, other processes, signal handlers that may have interrupted the interpreter.

mod code;
mod debug_offsets;
mod declined;
mod finalizing;
mod finding;
mod frame;
pub mod hash;
mod last_stack;
mod layout;
mod library;
mod locals;
mod memory;
mod nn_module;
mod rows;
mod runtime;
mod text;
mod thread;
mod version;
mod walk;

pub use code::CodeText;
pub use declined::Declined;
pub use finding::{Finding, finding};
pub use frame::{Frame, ModuleObject, Position};
pub use hash::StackHash;
pub use last_stack::{Lookup, StackMemo};
pub use library::symbol;
pub use locals::{Locals, Names, Value};
pub use runtime::Runtime;
pub use version::Version;
pub use walk::Walked;
