//! Captures made from what other tools have recorded.
//!
//! # Design constraints
//! - Figures are those of what is imported, to the byte, and nothing is claimed beyond them.
//! - The same input gives the same bytes.
//! - Memory is bounded by the input's size.

mod calls;
mod capture;
mod deferred;
mod device;
mod entry;
mod error;
mod fields;
mod frames;
mod given_back;
mod memory;
mod placements;
mod prior;
mod ranges;
mod seen;
mod settings;
mod snapshot;
mod source;
mod spans;
mod torch_snapshot;

pub use capture::CaptureError;
pub use error::ImportError;
pub use snapshot::SnapshotError;
pub use torch_snapshot::{Imported, torch_snapshot};
