//! Operations on the state, one family a file. The data structures are in the files of the same
//! names in `model`.

mod array;
mod capture;
mod context;
mod executable;
mod external;
mod graph;
mod graph_memory;
mod green;
mod ipc;
mod memory;
mod module;
mod multicast;
mod pool;
mod sharing;
mod stream;
mod user_object;
mod vmm;
