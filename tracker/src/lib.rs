//! What the card gave this process, as far as no single call says it: a pure state machine.
//!
//! | part | what it holds |
//! |---|---|
//! | [`Reservation`] | what grows and shrinks under one name: a pool, the graphs of a device, a context, a module |
//! | code | which function is of which library, and what a library is charged in each context |
//! | evidence | calls after which the card may have given or taken back what nobody asked for |
//! | residual | what a reading of NVML leaves unexplained, and whose it is |
//!
//! Nothing here asks, waits, locks or reads a clock. Callers pass what a call did or what a reading said;
//! what follows from it is queued as [`Resized`], in the order in which it is to be recorded.
//!
//! # How bytes that no call asks for are found
//!
//! A context, the code of a module and a larger stack take memory that no call names. Calls leave evidence
//! of them and change no figure. A [`Reading`] does: what NVML puts down to this process, less what the
//! physical level explains, is the *residual*. What it grew by since the last reading is charged to whoever
//! left evidence in between. So `explained + unexplained = NVML's figure` at every reading that is taken.
//!
//! With one piece of evidence in an interval its owner has all of the difference, exactly. With more, those
//! with a weight have theirs and the one without has the rest; where that does not tell them apart, the sum
//! is exact and the shares are marked as estimated.

#![forbid(unsafe_code)]

mod calls;
mod change;
mod code;
mod ends;
mod evidence;
mod readings;
mod reservations;
mod residual;
mod tracker;

pub use calls::FunctionOf;
pub use change::{Origin, Resized};
pub use ends::Ended;
pub use evidence::Seen;
pub use readings::{Reading, Ticket, Verdict};
pub use reservations::{Kind, Reservation};
pub use tracker::Tracker;
