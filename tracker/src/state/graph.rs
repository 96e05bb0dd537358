//! Graphs with memory nodes, and instantiated graphs.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use gpumem_capture::{DeviceOrdinal, EventFlags, Level};

/// A memory node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Node {
    /// Its handle; 0 for a captured call whose node handle is unknown.
    pub handle: u64,
    /// The address that it allocates or frees.
    pub ptr: u64,
    /// What it does when it runs.
    pub work: NodeWork,
}

/// What a memory node does when it runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NodeWork {
    /// It allocates a block.
    Allocate {
        /// Its level: device or host memory.
        level: Level,
        /// Its size.
        bytes: u64,
        /// Its device.
        device: DeviceOrdinal,
        /// Its kind.
        flags: EventFlags,
    },
    /// It frees a block.
    Free,
}

/// Nodes in the order in which they run.
pub(crate) type Nodes = Arc<[Node]>;

/// An instantiated graph with memory nodes.
#[derive(Clone, Debug)]
pub(crate) struct Exec {
    pub(crate) nodes: Nodes,
    /// Whether a launch first frees the live memory of earlier launches.
    pub(crate) frees_on_launch: bool,
}

/// Graphs and instantiated graphs with memory nodes.
#[derive(Debug, Default)]
pub(crate) struct Graphs {
    pub(crate) graphs: BTreeMap<u64, Vec<Node>>,
    pub(crate) execs: BTreeMap<u64, Exec>,
    /// The devices that have had a memory node, as a bit set.
    pub(crate) devices: u64,
}

impl Graphs {
    /// The devices that have had a memory node.
    pub(crate) fn devices(&self) -> impl Iterator<Item = DeviceOrdinal> + use<> {
        let mut left = self.devices;
        core::iter::from_fn(move || {
            let first = (left != 0).then(|| left.trailing_zeros() as u8)?;
            left &= left - 1;
            Some(DeviceOrdinal(first))
        })
    }

    pub(crate) fn are_used(&self) -> bool {
        self.devices != 0
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.graphs.is_empty() && self.execs.is_empty()
    }
}

/// The bytes that nodes allocate of each device's memory.
pub(crate) fn taken_by(nodes: &[Node]) -> BTreeMap<u8, u64> {
    let mut all = BTreeMap::new();
    for node in nodes {
        if let NodeWork::Allocate {
            level: Level::DRIVER,
            bytes,
            device,
            ..
        } = node.work
        {
            let of_device: &mut u64 = all.entry(device.0).or_default();
            *of_device = of_device.saturating_add(bytes);
        }
    }
    all
}

/// The live addresses that a launch frees, and its own allocations with their frees, in order.
pub(crate) fn work_of(exec: &Exec, is_live: impl Fn(u64) -> bool) -> (Vec<u64>, Nodes) {
    let (mut frees, mut nodes, mut own) = (Vec::new(), Vec::new(), BTreeSet::new());
    for node in exec.nodes.iter() {
        match node.work {
            NodeWork::Allocate { .. } => {
                if exec.frees_on_launch && is_live(node.ptr) {
                    frees.push(node.ptr);
                }
                own.insert(node.ptr);
                nodes.push(*node);
            }
            NodeWork::Free if own.contains(&node.ptr) => nodes.push(*node),
            NodeWork::Free => frees.push(node.ptr),
        }
    }
    (frees, nodes.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(ptr: u64, work: NodeWork) -> Node {
        let handle = 0;
        Node { handle, ptr, work }
    }

    fn allocate(ptr: u64) -> Node {
        let work = NodeWork::Allocate {
            level: Level::DRIVER,
            bytes: 8,
            device: DeviceOrdinal(0),
            flags: EventFlags::GRAPH,
        };
        node(ptr, work)
    }

    fn free(ptr: u64) -> Node {
        node(ptr, NodeWork::Free)
    }

    fn exec(nodes: &[Node], frees_on_launch: bool) -> Exec {
        Exec {
            nodes: nodes.into(),
            frees_on_launch,
        }
    }

    #[test]
    fn what_was_live_before_is_freed_first() {
        let exec = exec(&[allocate(1), free(2), free(1)], false);
        let (frees, nodes) = work_of(&exec, |_| true);
        assert_eq!(frees, [2]);
        assert_eq!(*nodes, [allocate(1), free(1)]);
    }

    #[test]
    fn a_launch_that_frees_by_itself_frees_only_what_is_live() {
        let exec = exec(&[allocate(1), allocate(2)], true);
        let (frees, nodes) = work_of(&exec, |ptr| ptr == 2);
        assert_eq!(frees, [2]);
        assert_eq!(*nodes, [allocate(1), allocate(2)]);
    }
}
