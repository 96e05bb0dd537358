//! Native stacks of the calling thread, taken in process, and the modules that their addresses lie
//! in.
//!
//! ```
//! let mut addresses = [0; 64];
//! let captured = gpumem_unwind::capture(&mut addresses, 0);
//! let module = gpumem_unwind::modules::describe(addresses[0]).unwrap();
//! assert!(captured.len > 0 && module.span.contains(addresses[0]));
//! ```
//!
//! # Words
//! - A **return address** is absolute: where a call returns to. The call itself lies before it, so
//!   look addresses up at `address - 1`.
//! - A **module** is one load of the program, a shared object or the vDSO. Its **bias** is the
//!   difference between where it was loaded and where it was linked.
//!
//! # Design constraints
//! - Works inside any function that any program may call: nothing here panics, prints or allocates,
//!   but for [`modules::describe`], which makes a path.
//! - Addresses only: symbols are found later, elsewhere, from the module's build id.
//! - Knows nothing of CUDA and nothing of captures.
//!
//! # Not suitable for
//! - Other threads, other processes, and signal handlers that may have interrupted the loader.

mod build_id;
mod capture;
pub mod modules;
mod object;

pub use build_id::BuildId;
pub use capture::{Captured, capture};
