//! The memory nodes of graphs and of instantiated graphs.
//!
//! A node has a fixed address from its creation on. Its bytes are live from a launch that runs it to the free, which is
//! a node of the same or another launch, or a call.

use std::collections::BTreeMap;

use gpumem_capture::{Event, EventFlags, EventKind};

use crate::state::block::{Block, Key};
use crate::state::graph::{Exec, Node, NodeWork, taken_by, work_of};
use crate::state::origin::Origin;
use crate::state::pending::{Pending, Then};
use crate::tracker::Tracker;

impl Tracker {
    /// Records a node that was added to a graph. Nothing becomes live.
    pub fn node_added(&mut self, graph: u64, node: Node, origin: Origin) {
        self.graphs.graphs.entry(graph).or_default().push(node);
        let NodeWork::Allocate {
            level,
            bytes,
            device,
            flags,
        } = node.work
        else {
            return;
        };
        if device.0 < 64 {
            self.graphs.devices |= 1 << device.0;
        }
        self.push(Event {
            ptr: node.ptr,
            bytes,
            aux: graph,
            device,
            flags,
            ..origin.event(EventKind::NODE, level)
        });
    }

    /// Records that the nodes of a child graph were added to a graph, as one node with that handle.
    pub fn child_added(&mut self, graph: u64, handle: u64, child: u64) {
        let nodes = self.graphs.graphs.get(&child).cloned().unwrap_or_default();
        if !nodes.is_empty() {
            let renamed = nodes.into_iter().map(|node| Node { handle, ..node });
            self.graphs.graphs.entry(graph).or_default().extend(renamed);
        }
    }

    /// Records that a node was removed from its graph.
    pub fn node_destroyed(&mut self, handle: u64) {
        if handle != 0 {
            for nodes in self.graphs.graphs.values_mut() {
                nodes.retain(|node| node.handle != handle);
            }
        }
    }

    /// Records the end of a graph. Memory from its launches stays live.
    pub fn graph_destroyed(&mut self, graph: u64) {
        self.graphs.graphs.remove(&graph);
    }

    /// Records that a graph was instantiated.
    pub fn instantiated(&mut self, exec: u64, graph: u64, flags: u64) {
        const AUTO_FREE_ON_LAUNCH: u64 = 1;
        let nodes = self.graphs.graphs.get(&graph).cloned().unwrap_or_default();
        if nodes.is_empty() {
            self.graphs.execs.remove(&exec);
            return;
        }
        let made = Exec {
            nodes: nodes.into(),
            frees_on_launch: flags & AUTO_FREE_ON_LAUNCH != 0,
        };
        self.graphs.execs.insert(exec, made);
    }

    /// Records the end of an instantiated graph.
    pub fn exec_destroyed(&mut self, exec: u64) {
        self.graphs.execs.remove(&exec);
    }

    /// The maximum number of bytes that the memory nodes of a graph use, by device.
    pub fn taken_by_graph(&self, graph: u64) -> BTreeMap<u8, u64> {
        taken_by(self.graphs.graphs.get(&graph).map_or(&[], Vec::as_slice))
    }

    /// The same for a launch; `None` if it has no memory nodes.
    pub fn taken_by_launch(&self, exec: u64) -> Option<BTreeMap<u8, u64>> {
        Some(taken_by(&self.graphs.execs.get(&exec)?.nodes))
    }

    /// Records that an instantiated graph is about to be launched. Live memory that it frees ends now; what it
    /// allocates, and frees again, is recorded by [`Tracker::settle`]. `None` if it does not affect memory. `caller` is
    /// the return address of the call.
    pub fn launching(&mut self, exec: u64, caller: u64, origin: Origin) -> Option<Pending> {
        let exec = self.graphs.execs.get(&exec)?;
        let (frees, nodes) = work_of(exec, |ptr| self.blocks.has(self.of_node(ptr)));
        let mut pending = Pending::default();
        for ptr in frees {
            self.release(self.of_node(ptr), EventFlags::GRAPH, origin, &mut pending);
        }
        pending.then = Some(Then::Launch { nodes, caller });
        Some(pending)
    }

    /// Records the effects of a launch's nodes.
    pub(crate) fn launched(&mut self, nodes: &[Node], caller: u64, origin: Origin) {
        for node in nodes {
            match node.work {
                NodeWork::Allocate {
                    level,
                    bytes,
                    device,
                    flags,
                } => {
                    let block = Block {
                        bytes,
                        context: 0,
                        device,
                        flags,
                        py_stack: origin.py_stack,
                    };
                    let (is_handle, ptr) = (false, node.ptr);
                    let key = Key {
                        level,
                        is_handle,
                        ptr,
                    };
                    self.allocated(key, block, caller, origin);
                }
                NodeWork::Free => {
                    let mut pending = Pending::default();
                    let free = origin.without_stacks();
                    self.release(
                        self.of_node(node.ptr),
                        EventFlags::GRAPH,
                        free,
                        &mut pending,
                    );
                }
            }
        }
    }
}
