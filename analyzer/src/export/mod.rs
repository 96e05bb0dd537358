//! A capture in the formats of other programs, one file for each.

mod torch_frames;
mod torch_segments;
mod torch_snapshot;

pub use torch_snapshot::{TorchSnapshot, torch_snapshot};
