//! `libgpumem_whatif.so`: replays a capture's steps of PyTorch's caching allocator with that allocator itself. It runs
//! in a process with PyTorch, on the simulated card, under any settings of that process.
//!
//! ```text
//! report.bin ─► steps ─► replay ─► allocator (PyTorch's) ─► the simulated card
//!                 │         ├────► events: when a stream is through, as recorded
//!                 │         ├────► checkpoints: states of pools, and their blocks
//!                 ├─────────┴────► ballast: what else was on the card, as recorded
//!                 ├─► save ◄─ decisions: what the allocator did; the replay as a capture
//!                 └─► calls: how often it called CUDA
//! ```
//! The process is python/gpumem/_whatif/child.py. It sets up the allocator and reads its figures at the end.

mod active;
mod allocator;
mod assumed;
mod attempt;
mod ballast;
mod besides;
mod calls;
mod capi;
mod checkpoints;
mod decisions;
mod events;
mod facts;
mod foreign;
mod growth;
mod late;
mod layout;
mod library;
mod live;
mod places;
mod pool;
mod real;
mod replay;
mod rounding;
mod save;
mod segments;
mod steps;
mod survey;
mod symbols;
mod threads;
mod unknown;
mod wanted;
