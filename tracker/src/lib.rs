//! What is live, owned, mapped and reserved in a process, but for tensors; what a call changes of it: a pure state machine.
//!
//! | part | what it holds |
//! |---|---|
//! | [`Block`]s, pages | what programs asked the driver for, and what the card gave for it |
//! | handles, [`Alias`]es | physical memory with its references and mappings; memory of others |
//! | contexts | which there are, and what ends with them |
//! | pools, graphs | what only the driver can say, by [`Questions`] |
//! | [`Reservation`] | what grows and shrinks under one name: a pool, the graphs of a device, a context, its streams, a module |
//! | code | which function is of which library, and what a library is charged in each context |
//! | evidence | calls after which the card may have given or taken back what nobody asked for |
//! | residual | what a reading of NVML leaves unexplained, and whose it is |
//!
//! Nothing here asks, waits, locks or reads a clock. Callers pass what a call did, what the driver answered or what a
//! reading said; what follows from it is queued as events, in the order in which they are to be recorded. What is about to
//! end is ended before the call, and taken back by [`Tracker::settle`] if the call fails.
//!
//! # How bytes that no call asks for are found
//!
//! A context, the code of a module, streams and a larger stack take memory that no call names. Calls leave evidence
//! of them and change no figure. A [`Reading`] does: what NVML puts down to this process, less what the
//! physical level explains, is the *residual*. What it grew by since the last reading is charged to whoever
//! left evidence in between. So `explained + unexplained = NVML's figure` at every reading that is taken.
//!
//! With one piece of evidence in an interval its owner has all of the difference, exactly. With more, those
//! with a weight have theirs and the one without has the rest; where that does not tell them apart, the sum
//! is exact and the shares are marked as estimated.

#![forbid(unsafe_code)]

mod aliases;
mod blocks;
mod calls;
mod contexts;
mod ends;
mod graphs;
mod handles;
mod pools;
mod readings;
mod settle;
mod state;
mod tracker;

pub use calls::FunctionOf;
pub use readings::{Reading, Ticket, Verdict};
pub use state::alias::Alias;
pub use state::block::{Block, Key};
pub use state::evidence::Seen;
pub use state::graph::{Node, NodeWork};
pub use state::origin::Origin;
pub use state::pending::Pending;
pub use state::pool::{Asked, Questions};
pub use state::reservations::{Kind, Reservation};
pub use tracker::{Interest, Tracker};
