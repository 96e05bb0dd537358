//! Graphs. The work of their nodes is done when an executable of them is launched.
//!
//! Nodes run in the order of their dependencies, and otherwise in the order in which they were
//! added. A node's handle is never reused, and handles ascend.

use crate::ffi::{Answer, require};
use gpumem_cuda_abi::{CuHostNodeParams, CuKernelNodeParams, CuMemcpy3d, CuMemsetNodeParams};
use std::collections::{BTreeMap, BTreeSet};

/// The work of a node.
#[derive(Clone, Debug, PartialEq)]
pub enum Work {
    /// Launches a kernel.
    Kernel(CuKernelNodeParams),
    /// Copies.
    Copy(CuMemcpy3d),
    /// Fills memory.
    Fill(CuMemsetNodeParams),
    /// Calls a function of the program.
    Host(CuHostNodeParams),
    /// Runs a graph that the node owns.
    Graph(usize),
    /// No work.
    Empty,
    /// Waits for an event.
    Wait(usize),
    /// Records an event.
    Record(usize),
    /// Allocates memory at this address.
    Allocate(u64),
    /// Frees the memory at this address.
    Free(u64),
}

impl Work {
    /// `CUgraphNodeType`.
    pub fn kind(&self) -> u32 {
        match self {
            Self::Kernel(_) => 0,
            Self::Copy(_) => 1,
            Self::Fill(_) => 2,
            Self::Host(_) => 3,
            Self::Graph(_) => 4,
            Self::Empty => 5,
            Self::Wait(_) => 6,
            Self::Record(_) => 7,
            Self::Allocate(_) => 10,
            Self::Free(_) => 11,
        }
    }

    /// Its name in a drawing of the graph.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Kernel(_) => "KERNEL",
            Self::Copy(_) => "MEMCPY",
            Self::Fill(_) => "MEMSET",
            Self::Host(_) => "HOST",
            Self::Graph(_) => "GRAPH",
            Self::Empty => "EMPTY",
            Self::Wait(_) => "WAIT_EVENT",
            Self::Record(_) => "EVENT_RECORD",
            Self::Allocate(_) => "MEM_ALLOC",
            Self::Free(_) => "MEM_FREE",
        }
    }

    /// Whether it allocates or frees memory.
    pub fn is_memory(&self) -> bool {
        matches!(self, Self::Allocate(_) | Self::Free(_))
    }
}

/// Attributes that were set on a kernel node, by `CUlaunchAttributeID`.
pub type Attributes = BTreeMap<u32, [u8; 32]>;

/// One node.
#[derive(Clone, Debug)]
pub struct Node {
    /// Its work.
    pub work: Work,
    /// The nodes that it depends on.
    pub after: BTreeSet<usize>,
    /// Attributes of a kernel node.
    pub attributes: Attributes,
    /// Its number in its graph.
    pub local_id: u32,
}

/// One graph.
#[derive(Debug, Default)]
pub struct Graph {
    /// Its nodes.
    pub nodes: BTreeMap<usize, Node>,
    /// Its number, which is never reused.
    pub id: u32,
    /// User objects that it holds, with the number of references.
    pub objects: BTreeMap<usize, u32>,
    /// Addresses that its nodes allocate.
    pub allocations: BTreeSet<u64>,
    /// For a clone, its nodes by those of the original.
    pub(crate) clones: BTreeMap<usize, usize>,
    /// Whether a node owns it.
    pub(crate) is_child: bool,
    /// The number of its executables that still exist.
    pub executables: usize,
    pub(crate) made: u32,
}

impl Graph {
    /// Whether it has nodes that allocate or free memory.
    pub fn has_memory(&self) -> bool {
        self.nodes.values().any(|node| node.work.is_memory())
    }

    /// Its nodes in an order in which they can run.
    ///
    /// # Errors
    /// `INVALID_VALUE` if the dependencies have a cycle.
    pub fn order(&self) -> Answer<Vec<usize>> {
        let mut waiting: BTreeMap<usize, usize> = BTreeMap::new();
        let mut then: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
        let mut ready = BTreeSet::new();
        for (handle, node) in &self.nodes {
            if node.after.is_empty() {
                ready.insert(*handle);
            }
            waiting.insert(*handle, node.after.len());
            for before in &node.after {
                then.entry(*before).or_default().push(*handle);
            }
        }
        let mut order = Vec::with_capacity(self.nodes.len());
        while let Some(next) = ready.pop_first() {
            order.push(next);
            for later in then.remove(&next).unwrap_or_default() {
                let left = waiting.entry(later).or_default();
                *left -= 1;
                if *left == 0 {
                    ready.insert(later);
                }
            }
        }
        require(order.len() == self.nodes.len())?;
        Ok(order)
    }
}
