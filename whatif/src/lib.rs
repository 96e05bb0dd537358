//! `libgpumem_whatif.so`: replays what a capture says of PyTorch's caching allocator by that allocator itself, in a process
//! that has PyTorch, on the simulated card, under whatever settings that process has.
//!
//! ```text
//! report.bin ─► steps ─► replay ─► allocator (PyTorch's) ─► the simulated card
//!                 │         ├────► events: when a stream is through, as recorded
//!                 ├─────────┴────► ballast: what else was on the card, as recorded
//!                 └─► save ◄─ decisions: what the allocator did; the replay as a capture
//! ```
//! The process is python/gpumem/_whatif/child.py, which has the allocator set up and reads its figures in the end.

mod active;
mod allocator;
mod attempt;
mod ballast;
mod capi;
mod decisions;
mod events;
mod facts;
mod foreign;
mod growth;
mod late;
mod library;
mod pool;
mod real;
mod replay;
mod save;
mod segments;
mod steps;
mod survey;
mod threads;
