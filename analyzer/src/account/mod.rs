//! What is known about a replayed capture: its accuracy, and the step and phase of its events.

mod judge;
mod missing;
mod reached;
mod replayed;
#[cfg(test)]
mod tests;
mod when;
mod words;

pub use crate::units::many;
pub use judge::{Account, Comparison, Ending, duration};
pub use reached::Reached;
pub use replayed::Replayed;
pub use when::{Phase, When, by_frames, phase_of, when_of};
pub use words::place;
