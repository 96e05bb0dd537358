//! The simulated driver's state, behind one lock.

pub mod array;
pub mod books;
pub mod capture;
pub mod contents;
pub mod context;
pub mod device_books;
pub mod executable;
pub mod external;
pub mod formats;
pub mod graph;
pub mod graph_memory;
pub mod graphs;
pub mod green;
pub mod handles;
pub mod ipc;
pub mod kind;
pub mod limits;
pub mod memory;
pub mod module;
pub mod multicast;
mod ops;
pub mod pool;
pub mod ptx;
pub mod ranges;
pub mod sharing;
pub mod small;
pub mod state;
pub mod stream;
mod stream_memory;
pub mod user_object;
pub mod vmm;

pub use state::State;

#[cfg(test)]
mod graph_tests;
#[cfg(test)]
pub(crate) mod tests;
