//! Executable graphs, the results of instantiation.
//!
//! An executable has its own copy of the graph's work, including that of children, in the order of
//! execution. Its steps are found by the handles of the nodes that they come from.

use super::graph::Work;
use super::graph_memory::Worst;
use crate::ffi::{Answer, CuError};
use std::collections::BTreeMap;

/// `CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH`.
pub const AUTO_FREE: u64 = 1;
/// `CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD`, of `cuGraphInstantiateWithParams` only.
pub const UPLOAD: u64 = 2;
/// `CUDA_GRAPH_INSTANTIATE_FLAG_DEVICE_LAUNCH`: not simulated.
pub const DEVICE_LAUNCH: u64 = 4;
/// Every flag.
pub const FLAGS: u64 = 15;

/// The reason why an executable could not be updated, as `CUgraphExecUpdateResult`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Difference {
    /// `CUgraphExecUpdateResult`.
    pub result: u32,
    /// The node of the new graph at which it differs.
    pub node: usize,
}

/// One step.
#[derive(Clone, Debug)]
pub struct Step {
    /// The node that it comes from.
    pub node: usize,
    /// Its work.
    pub work: Work,
    /// Whether it runs.
    pub enabled: bool,
    /// The indices of the earlier steps that it depends on.
    pub(crate) after: Vec<usize>,
}

/// An instantiated graph.
#[derive(Debug)]
pub struct Executable {
    /// Its number.
    pub id: u32,
    /// `CUgraphInstantiate_flags`.
    pub flags: u64,
    /// Its work, in order.
    pub steps: Vec<Step>,
    /// The graph that it comes from, if it still exists.
    pub(crate) graph: usize,
    pub(crate) objects: BTreeMap<usize, u32>,
}

/// A launch that is in progress.
#[derive(Debug)]
pub struct Launch {
    /// The work to do, in order.
    pub works: Vec<Work>,
    /// The pages that are reserved for it until [`State::keep_promise`].
    pub promised: Worst,
}

impl Executable {
    /// Addresses that it allocates.
    pub fn allocations(&self) -> Vec<u64> {
        let all = self.steps.iter().filter_map(|step| match step.work {
            Work::Allocate(address) => Some(address),
            _ => None,
        });
        all.collect()
    }

    /// The step of a node.
    pub fn step_mut(&mut self, node: usize) -> Answer<&mut Step> {
        let found = self.steps.iter_mut().find(|step| step.node == node);
        found.ok_or(CuError::INVALID_VALUE)
    }

    pub(crate) fn enabled(&self) -> impl Iterator<Item = &Work> {
        let enabled = self.steps.iter().filter(|step| step.enabled);
        enabled.map(|step| &step.work)
    }
}
