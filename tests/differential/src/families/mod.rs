//! Families of calls, one a file: each chooses its calls, keeps its part of the model, and cleans up.

pub mod array;
pub mod context;
pub mod device;
pub mod external;
pub mod graph;
pub mod graph_nodes;
pub mod green;
pub mod host;
pub mod ipc;
pub mod module;
pub mod multicast;
pub mod old;
pub mod peer;
pub mod pool;
pub mod runtime;
pub mod vmm;

use crate::world::{Ended, World};

/// A family.
#[derive(Clone, Copy)]
pub struct Family {
    /// Its name on the command line.
    pub name: &'static str,
    /// How often it is chosen.
    pub weight: usize,
    /// A few calls of it.
    pub step: fn(&mut World),
    /// A context has ended.
    pub ended: fn(&mut World, &Ended),
    /// Releases what is left, at the end of a sequence.
    pub end: fn(&mut World),
}

/// Every family, in the order in which they clean up: contexts last.
pub static ALL: &[Family] = &[
    device::FAMILY,
    device::MANAGED,
    host::FAMILY,
    host::REGISTERED,
    pool::FAMILY,
    vmm::FAMILY,
    array::FAMILY,
    ipc::FAMILY,
    peer::FAMILY,
    graph::FAMILY,
    external::FAMILY,
    multicast::FAMILY,
    module::FAMILY,
    old::FAMILY,
    runtime::FAMILY,
    green::FAMILY,
    context::FAMILY,
];
