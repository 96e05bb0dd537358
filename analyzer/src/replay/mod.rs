//! The replay of a capture's records, and what may be said of it.
//!
//! The replay itself is a crate of its own; here is what its state means to people: the account, and what
//! the program was at.

mod account;
mod limits;
#[cfg(test)]
mod tests;
mod when;

pub use account::many;
pub use account::{Account, Comparison, Ending, Reached, duration, place};
pub use gpumem_replay::*;
pub use limits::{is_by_limit, limit_of};
pub use when::{Phase, When, phase_of, when_of};
