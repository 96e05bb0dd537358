//! A pure state machine of everything except tensors that is live, owned, mapped and reserved in a process, and of the
//! effects of calls on it.
//!
//! | part | contents |
//! |---|---|
//! | [`Block`]s, pages | what programs requested from the driver, and the physical memory behind it |
//! | handles, [`Alias`]es | physical memory with its references and mappings; memory of others |
//! | contexts | which exist, and what ends with them |
//! | pools, graphs | sizes that only the driver can report, by [`Questions`] |
//! | [`Reservation`] | bytes that grow and shrink under one name: a pool, the graphs of a device, a context, its streams, a module |
//! | code | the library of each function, and the bytes charged to each library in each context |
//! | evidence | calls after which the driver may have allocated or freed memory implicitly |
//! | residual | the part of an NVML reading that is unexplained, and its owners |
//!
//! This crate does not query anything, wait, lock or read a clock. Callers pass the effects of a call, the driver's
//! answers or a reading. The resulting events are queued in the order in which they must be recorded. Ends are recorded
//! before the call, and reverted by [`Tracker::settle`] if the call fails.
//!
//! # How implicitly allocated bytes are found
//!
//! A context, the code of a module, streams and a larger stack take memory that no call requests. Calls leave evidence
//! of them and change no figure. A [`Reading`] does: NVML's figure for this process, minus the physical level's
//! explained bytes, is the *residual*. Its growth since the last reading is charged to the owners of the evidence in
//! between. So `explained + unexplained = NVML's figure` at every accepted reading.
//!
//! With one piece of evidence in an interval, its owner is charged the whole difference, exactly. With more, those with
//! a weight are charged their weight and the one without gets the rest. If that does not determine the shares, the sum
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
pub use state::pool::{Asked, Place, Questions};
pub use state::reservations::{Kind, Reservation};
pub use tracker::{Interest, Tracker};
