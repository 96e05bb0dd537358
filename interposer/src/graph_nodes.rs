//! The memory nodes of graphs, and of what was instantiated from them.
//!
//! No lock is ever held across a driver call or across the recording of an event.

use core::sync::atomic::{AtomicBool, Ordering};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use gpumem_capture::{DeviceOrdinal, EventFlags, Level};

use crate::live::{self, Place};
use gpumem_capture::writer::lock::{Guard, Lock};

/// A memory node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Node {
    /// Its handle; 0: a captured call, whose node nobody has named.
    pub(crate) handle: u64,
    /// The address that it allocates or frees.
    pub(crate) ptr: u64,
    pub(crate) work: Work,
}

/// What a memory node does when it runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Work {
    Allocate {
        bytes: u64,
        device: DeviceOrdinal,
        flags: EventFlags,
    },
    Free,
}

/// An instantiated graph with memory nodes.
#[derive(Clone)]
struct Exec {
    nodes: Arc<[Node]>,
    /// A launch first frees what earlier ones left live.
    frees_on_launch: bool,
}

struct Known {
    graphs: BTreeMap<u64, Vec<Node>>,
    execs: BTreeMap<u64, Exec>,
}

static ANY: AtomicBool = AtomicBool::new(false);

fn known() -> Guard<'static, Known> {
    static KNOWN: Lock<Known> = Lock::new(Known {
        graphs: BTreeMap::new(),
        execs: BTreeMap::new(),
    });
    KNOWN.lock()
}

/// Whether any graph has had a memory node.
fn any() -> bool {
    ANY.load(Ordering::Acquire)
}

/// Adds a node to a graph.
pub(crate) fn add(graph: u64, node: Node) {
    known().graphs.entry(graph).or_default().push(node);
    ANY.store(true, Ordering::Release);
}

/// Adds the nodes of a child to a graph, as one node of that handle.
pub(crate) fn add_child(graph: u64, handle: u64, child: u64) {
    if !any() {
        return;
    }
    let mut known = known();
    let nodes = known.graphs.get(&child).cloned().unwrap_or_default();
    if !nodes.is_empty() {
        let renamed = nodes.into_iter().map(|node| Node { handle, ..node });
        known.graphs.entry(graph).or_default().extend(renamed);
    }
}

/// Takes a node out of its graph.
pub(crate) fn destroy_node(handle: u64) {
    if any() && handle != 0 {
        for nodes in known().graphs.values_mut() {
            nodes.retain(|node| node.handle != handle);
        }
    }
}

/// Forgets a graph.
pub(crate) fn destroy_graph(graph: u64) {
    if any() {
        known().graphs.remove(&graph);
    }
}

/// Takes note of an instantiation.
pub(crate) fn instantiate(exec: u64, graph: u64, flags: u64) {
    const AUTO_FREE_ON_LAUNCH: u64 = 1;
    if !any() {
        return;
    }
    let mut known = known();
    let nodes = known.graphs.get(&graph).cloned().unwrap_or_default();
    if nodes.is_empty() {
        known.execs.remove(&exec);
        return;
    }
    let made = Exec {
        nodes: nodes.into(),
        frees_on_launch: flags & AUTO_FREE_ON_LAUNCH != 0,
    };
    known.execs.insert(exec, made);
}

/// Forgets an instantiated graph.
pub(crate) fn destroy_exec(exec: u64) {
    if any() {
        known().execs.remove(&exec);
    }
}

/// What a launch does to memory.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct LaunchWork {
    /// Addresses live before that it frees.
    pub(crate) frees_before: Vec<u64>,
    /// Its own allocations, and their frees, in order.
    pub(crate) nodes: Vec<Node>,
}

/// What a launch of `exec` is about to do; `None`: nothing to memory.
pub(crate) fn of_launch(exec: u64) -> Option<LaunchWork> {
    if !any() {
        return None;
    }
    let exec = known().execs.get(&exec).cloned()?;
    let (level, vmm) = (Level::DRIVER, false);
    let is_live = |ptr| live::at(Place { level, vmm, ptr }).is_some();
    Some(work_of(&exec, is_live))
}

/// How much nodes allocate on each device.
fn taken_by(nodes: &[Node]) -> BTreeMap<u8, u64> {
    let mut all = BTreeMap::new();
    for node in nodes {
        if let Work::Allocate { bytes, device, .. } = node.work {
            let of_device: &mut u64 = all.entry(device.0).or_default();
            *of_device = of_device.saturating_add(bytes);
        }
    }
    all
}

/// The most that the memory nodes of a graph take, by device.
pub(crate) fn taken_by_graph(graph: u64) -> BTreeMap<u8, u64> {
    if !any() {
        return BTreeMap::new();
    }
    let known = known();
    taken_by(known.graphs.get(&graph).map_or(&[], Vec::as_slice))
}

/// The same of a launch; `None` if it has no such nodes.
pub(crate) fn taken_by_launch(exec: u64) -> Option<BTreeMap<u8, u64>> {
    if !any() {
        return None;
    }
    Some(taken_by(&known().execs.get(&exec)?.nodes))
}

fn work_of(exec: &Exec, is_live: impl Fn(u64) -> bool) -> LaunchWork {
    let mut work = LaunchWork {
        frees_before: Vec::new(),
        nodes: Vec::new(),
    };
    let mut own = BTreeSet::new();
    for node in exec.nodes.iter() {
        match node.work {
            Work::Allocate { .. } => {
                if exec.frees_on_launch && is_live(node.ptr) {
                    work.frees_before.push(node.ptr);
                }
                own.insert(node.ptr);
                work.nodes.push(*node);
            }
            Work::Free if own.contains(&node.ptr) => work.nodes.push(*node),
            Work::Free => work.frees_before.push(node.ptr),
        }
    }
    work
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(ptr: u64, work: Work) -> Node {
        let handle = 0;
        Node { handle, ptr, work }
    }

    fn allocate(ptr: u64) -> Node {
        let work = Work::Allocate {
            bytes: 8,
            device: DeviceOrdinal(0),
            flags: EventFlags::GRAPH,
        };
        node(ptr, work)
    }

    fn free(ptr: u64) -> Node {
        node(ptr, Work::Free)
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
        let work = work_of(&exec, |_| true);
        assert_eq!(work.frees_before, [2]);
        assert_eq!(work.nodes, [allocate(1), free(1)]);
    }

    #[test]
    fn a_launch_that_frees_by_itself_frees_only_what_is_live() {
        let exec = exec(&[allocate(1), allocate(2)], true);
        let work = work_of(&exec, |ptr| ptr == 2);
        assert_eq!(work.frees_before, [2]);
        assert_eq!(work.nodes, [allocate(1), allocate(2)]);
    }
}
