//! What PyTorch's caching allocator decides by, so that a replay of a capture can decide as it did.
//!
//! | what | from |
//! |---|---|
//! | bytes that were asked for, stream | the allocator's own block, which its report of an allocation has just read ([`block`]) |
//! | pools, streams that a block is used on, fraction, settings | calls of the allocator ([`slots`], [`calls`], [`checkpoints`]) |
//! | pool of a block | the filters that the allocator asks ([`routes`]); its trace, where that says it |
//! | when a block that waited for streams is free | its trace ([`traced`]), from the first call on after which one can wait |
//!
//! PyTorch calls all of this with its lock of the device held, but for the calls. What cannot be seen of a release of
//! PyTorch's is said (`allocator_sees`), and nothing is guessed.

mod attach;
pub(crate) mod block;
pub(crate) mod calls;
mod checkpoints;
mod filters;
pub(crate) mod found;
mod placements;
mod record;
mod routes;
mod seen;
pub(crate) mod slots;
pub(crate) mod source;
pub(crate) mod state;
mod streams;
mod traced;
