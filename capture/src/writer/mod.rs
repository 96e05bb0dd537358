//! Records events and definitions into the shared ring.
//!
//! # Design constraints
//! - [`Writer::event`] and [`Writer::definition`] neither allocate, nor panic, nor take a lock that is
//!   held across anything that can block. They wait only while the ring is full, and then for a
//!   bounded time.
//! - Loops and waits depend only on this process's own memory. Memory that other processes can access holds
//!   copies, which are only written.
//! - Unless the ring is in the capture, only [`Writer::create_file`] and [`Writer::run_store`] access a disk.
//! - Nothing is ever unmapped, and there is no atfork handler.
//! - A forked child records nothing and does not affect its parent's capture.

mod attempt;
mod backing;
mod backpressure;
mod bounded;
mod clock;
mod close;
mod counter_snapshot;
mod drain;
mod drain_state;
mod error;
mod file;
mod fork;
mod head;
pub mod lock;
mod loss;
mod memory;
mod offline;
mod open;
mod options;
mod phase;
mod queue;
mod record;
mod room;
mod rows;
mod shared;
mod state;
mod store;
mod store_state;
pub(crate) mod sys;

pub use attempt::{Attempt, LockHeld, Refused, assert_may_wait};
pub use bounded::StateSink;
pub use counter_snapshot::CounterSnapshot;
pub use error::{CreateError, Ended, Lost, Trouble};
pub use offline::{OfflineError, OfflineWriter};
pub use options::{Options, Origin, RingPlace};
pub use record::CounterGuard;
pub use rows::RowSnapshot;
pub use shared::Writer;
