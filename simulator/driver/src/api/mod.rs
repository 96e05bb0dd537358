//! The driver's functions.
//!
//! Each is `extern "C"` with the header's parameters; the [table](crate::table) defines its
//! exported names. Functions that hold a lock never call back into the program.

pub mod array;
pub mod batch;
pub mod capture;
pub mod context;
pub mod copy;
pub mod copy_box;
pub mod copy_side;
pub mod device;
pub mod event;
pub mod export_table;
pub mod external;
pub mod fill;
pub mod graph;
pub mod graph_executable;
pub mod graph_memory;
pub mod graph_node;
pub mod graph_node_params;
pub mod graph_update;
pub mod graph_work;
pub mod green;
pub mod host_memory;
pub mod init;
pub mod ipc;
pub mod kernel;
pub mod link;
pub mod memory;
pub mod module;
pub mod multicast;
pub mod occupancy;
pub mod old;
mod on_stream;
pub mod pointer;
pub mod pool;
pub mod stream;
pub mod texture;
pub mod user_object;
pub mod vmm;

use crate::ffi::{Answer, CuError};

/// The result of every function that is not simulated.
pub extern "C" fn not_supported() -> Answer {
    Err(CuError::NOT_SUPPORTED)
}

/// The result of functions without effect here (texture references, hints).
pub extern "C" fn nothing_to_do() -> Answer {
    Ok(())
}
