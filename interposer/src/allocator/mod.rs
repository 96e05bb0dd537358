//! The inputs of the decisions of PyTorch's caching allocator, so that a replay of a capture can repeat them.
//!
//! | input | source |
//! |---|---|
//! | requested bytes, stream | the allocator's own block, which its report of an allocation has just read ([`block`]) |
//! | pools, streams that a block is used on, fraction, settings | calls of the allocator ([`slots`], [`calls`], [`checkpoints`]) |
//! | pool of a block | the filters that the allocator calls ([`routes`]); its trace, if that includes the pool |
//! | when a block that waited for streams is free | its trace ([`traced`]), from the first call on after which a block can wait |
//!
//! PyTorch calls all of this, except the calls, with its lock of the device held. Inputs that a release of PyTorch does
//! not provide are recorded as missing (`allocator_sees`); nothing is guessed.

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
