//! The backend API: graphs of operations, and the plans that execute them.
//!
//! A descriptor is a kind and its attributes. A finalized descriptor never changes, and is shared
//! by all that have it as an attribute: callers destroy the parts of a graph before the graph.

mod attribute;
mod descriptor;
mod execute;
mod graph;
mod query;
mod store;

pub use execute::{execute, plan_workspace};
pub use query::get_attribute;
pub use store::{create, destroy, finalize, initialize, set_attribute};

#[cfg(test)]
mod tests;
