//! `report.bin`: the shared-memory ring, the pages after it, the writer and the reader.
//!
//! SPEC.md in this crate's folder specifies the format to the byte.
//!
//! # Words
//! - A **slot** is 64 bytes of the ring. A **record** is one or more consecutive slots.
//! - A record's **sequence number** ([`Seq`]) is the index of its first slot since the capture began,
//!   counted without wrapping. It orders all records of the capture exactly.
//! - An **event** is a record of fixed size (one slot): something that happened to memory.
//! - A **definition** is a record of variable size: a stack, a code object, a module, a name. It is
//!   recorded once, before the first event that refers to it.
//! - A **page** is a run of records that the drain has compressed and appended to the file.
//!
//! # Design constraints
//! - This crate handles bytes only: it depends neither on CUDA nor on any view.
//! - The writer never allocates on the event path, never holds a lock across an operation that can
//!   block, and never shuts down: once created, a capture lives as long as its process.
//! - Everything that a hook had written when the process was killed can be read back.
//! - The reader treats damage as normal input: it reports what is missing and never invents a number.

mod bounded_layout;
mod checksum;
mod coordinates;
mod counters;
mod definition;
pub mod embedded;
mod event;
mod file;
#[doc(hidden)]
pub mod fuzzing;
mod header;
mod ids;
mod index;
mod layout;
mod lock;
mod namespaces;
mod page;
mod payload;
mod procfs;
pub mod reader;
mod recover;
mod ring;
mod ring_file;
mod slot;
mod sync;
#[cfg(test)]
mod tests;
pub mod text;
#[cfg(not(loom))]
pub mod writer;

pub use coordinates::Coordinates;
pub use counters::CounterValues;
pub use definition::*;
pub use event::*;
pub use ids::*;
pub use reader::ring_file::is_ring;
pub use reader::{
    Bounded, Counters, Damage, Follow, Header, Integrity, LossRange, OpenError, Progress,
    ReadError, Reader, Record, RingState,
};
pub use recover::{MergeError, Merged, merge, merge_held, sweep};
#[cfg(not(loom))]
pub use writer::{
    Attempt, CounterGuard, CounterSnapshot, CreateError, Ended, LockHeld, Lost, OfflineError,
    OfflineWriter, Options, Origin, Refused, RingPlace, RowSnapshot, StateSink, Trouble, Writer,
    assert_may_wait,
};
