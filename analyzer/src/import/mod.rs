//! Captures imported from the recordings of other tools.
//!
//! # Design constraints
//! - Figures are those of the imported file, to the byte. No others are claimed.
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
