//! Graphs: nodes of work that is done when an executable made of them is launched.
//!
//! Nodes run in the order of their dependencies, and where these say nothing in the order in which
//! they were made. A node's handle is never used again, and handles ascend.

use super::State;
use super::graph_memory::GraphMemory;
use super::handles::Handles;
use super::user_object::{Ended, UserObject};
use crate::ffi::{Answer, require};
use gpumem_cuda_abi::{
    CuHostNodeParams, CuKernelNodeParams, CuMemcpy3d, CuMemsetNodeParams, CuResult,
};
use std::collections::{BTreeMap, BTreeSet};

/// What a node does.
#[derive(Clone, Debug, PartialEq)]
pub enum Work {
    /// Launches a kernel.
    Kernel(CuKernelNodeParams),
    /// Copies.
    Copy(CuMemcpy3d),
    /// Fills memory.
    Fill(CuMemsetNodeParams),
    /// Calls the program.
    Host(CuHostNodeParams),
    /// Runs a graph that the node owns.
    Graph(usize),
    /// Nothing.
    Empty,
    /// Waits for an event.
    Wait(usize),
    /// Records an event.
    Record(usize),
    /// Gives memory at this address.
    Allocate(u64),
    /// Frees it.
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

    /// What a drawing of the graph calls it.
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

    /// Whether it gives or frees memory.
    pub fn is_memory(&self) -> bool {
        matches!(self, Self::Allocate(_) | Self::Free(_))
    }
}

/// Attributes that were set on a kernel node, by `CUlaunchAttributeID`.
pub type Attributes = BTreeMap<u32, [u8; 32]>;

/// One node.
#[derive(Clone, Debug)]
pub struct Node {
    /// What it does.
    pub work: Work,
    /// The nodes that come before it.
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
    /// Its number, never used again.
    pub id: u32,
    /// User objects that it holds, and how often.
    pub objects: BTreeMap<usize, u32>,
    /// Addresses that its nodes allocate.
    pub allocations: BTreeSet<u64>,
    /// Of a clone, its nodes by those of the original.
    clones: BTreeMap<usize, usize>,
    /// Whether a node owns it.
    is_child: bool,
    /// Executables made of it that still exist.
    pub executables: usize,
    made: u32,
}

impl Graph {
    /// Whether it has nodes that give or free memory.
    pub fn has_memory(&self) -> bool {
        self.nodes.values().any(|node| node.work.is_memory())
    }

    /// Its nodes in an order in which they may run.
    ///
    /// # Errors
    /// `INVALID_VALUE` if they depend on each other in a circle.
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

/// All graphs, what was made of them, and their memory.
#[derive(Debug)]
pub struct Graphs {
    /// Graphs.
    pub live: Handles<Graph>,
    /// Which graph a node is in.
    pub nodes: Handles<usize>,
    /// What was instantiated.
    pub executables: Handles<super::executable::Executable>,
    /// User objects.
    pub objects: Handles<UserObject>,
    /// Memory of allocation nodes.
    pub memory: GraphMemory,
    next_id: u32,
}

impl Graphs {
    /// None yet, for so many devices.
    pub fn new(devices: usize) -> Self {
        Self {
            live: Handles::new(0x41),
            nodes: Handles::new(0x42),
            executables: Handles::new(0x43),
            objects: Handles::new(0x44),
            memory: GraphMemory::new(devices),
            next_id: 0,
        }
    }

    /// A number for a graph or an executable.
    pub fn number(&mut self) -> u32 {
        self.next_id += 1;
        self.next_id
    }

    /// `cuGraphCreate`.
    pub fn create(&mut self) -> usize {
        let id = self.number();
        self.live.insert(Graph {
            id,
            ..Graph::default()
        })
    }

    /// A graph.
    pub fn get(&self, graph: usize) -> Answer<&Graph> {
        self.live.get(graph).ok_or(CuResult::INVALID_VALUE)
    }

    /// A graph to change.
    pub fn get_mut(&mut self, graph: usize) -> Answer<&mut Graph> {
        self.live.get_mut(graph).ok_or(CuResult::INVALID_VALUE)
    }

    /// The graph that a node is in.
    pub fn graph_of(&self, node: usize) -> Answer<usize> {
        let found = self.nodes.get(node).copied();
        found.ok_or(CuResult::INVALID_VALUE)
    }

    /// A node.
    pub fn node(&self, node: usize) -> Answer<&Node> {
        let graph = self.get(self.graph_of(node)?)?;
        graph.nodes.get(&node).ok_or(CuResult::INVALID_VALUE)
    }

    /// A node to change.
    pub fn node_mut(&mut self, node: usize) -> Answer<&mut Node> {
        let graph = self.graph_of(node)?;
        let graph = self.get_mut(graph)?;
        graph.nodes.get_mut(&node).ok_or(CuResult::INVALID_VALUE)
    }

    /// Checks nodes that a call names: live, in this graph, none twice.
    pub fn check_nodes(&self, graph: usize, nodes: &[usize]) -> Answer {
        let mut seen = BTreeSet::new();
        for node in nodes {
            require(self.graph_of(*node)? == graph && seen.insert(*node))?;
        }
        Ok(())
    }

    /// Adds a node.
    pub fn add(&mut self, graph: usize, after: &[usize], work: Work) -> Answer<usize> {
        self.get(graph)?;
        self.check_nodes(graph, after)?;
        let handle = self.nodes.insert(graph);
        let found = self.get_mut(graph)?;
        found.made += 1;
        let node = Node {
            work,
            after: after.iter().copied().collect(),
            attributes: Attributes::new(),
            local_id: found.made,
        };
        found.nodes.insert(handle, node);
        Ok(handle)
    }

    /// `cuGraphAddDependencies`.
    pub fn connect(&mut self, graph: usize, from: &[usize], to: &[usize]) -> Answer {
        for (from, to) in from.iter().zip(to) {
            require(from != to)?;
            self.check_nodes(graph, &[*from, *to])?;
            require(!self.node(*to)?.after.contains(from))?;
        }
        for (from, to) in from.iter().zip(to) {
            self.node_mut(*to)?.after.insert(*from);
        }
        Ok(())
    }

    /// `cuGraphRemoveDependencies`: not in graphs with memory.
    pub fn disconnect(&mut self, graph: usize, from: &[usize], to: &[usize]) -> Answer {
        if self.get(graph)?.has_memory() {
            return Err(CuResult::NOT_SUPPORTED);
        }
        for (from, to) in from.iter().zip(to) {
            self.check_nodes(graph, &[*from, *to])?;
            require(self.node(*to)?.after.contains(from))?;
        }
        for (from, to) in from.iter().zip(to) {
            self.node_mut(*to)?.after.remove(from);
        }
        Ok(())
    }

    /// `cuGraphClone`: not of graphs with memory.
    pub fn clone_graph(&mut self, original: usize) -> Answer<usize> {
        if self.has_memory_anywhere(original)? {
            return Err(CuResult::NOT_SUPPORTED);
        }
        let nodes = self.get(original)?.nodes.clone();
        let objects = self.get(original)?.objects.clone();
        let clone = self.create();
        let mut clones = BTreeMap::new();
        for (handle, node) in nodes {
            let after: Vec<usize> = node.after.iter().map(|before| clones[before]).collect();
            let work = match node.work {
                Work::Graph(child) => Work::Graph(self.child(child)?),
                other => other,
            };
            let copy = self.add(clone, &[], work)?;
            clones.insert(handle, copy);
            let added = self.node_mut(copy)?;
            added.after = after.into_iter().collect();
            added.attributes = node.attributes;
        }
        for (object, count) in &objects {
            self.retain_object(*object, *count)?;
        }
        let made = self.get_mut(clone)?;
        made.objects = objects;
        made.clones = clones;
        Ok(clone)
    }

    /// A clone for a child node.
    pub fn child(&mut self, graph: usize) -> Answer<usize> {
        let child = self.clone_graph(graph)?;
        self.get_mut(child)?.is_child = true;
        Ok(child)
    }

    /// Makes a graph a child node's own.
    pub fn adopt(&mut self, graph: usize) -> Answer {
        let found = self.get_mut(graph)?;
        require(!found.is_child && found.executables == 0)?;
        found.is_child = true;
        Ok(())
    }

    /// `cuGraphNodeFindInClone`.
    pub fn find_in_clone(&self, node: usize, clone: usize) -> Answer<usize> {
        let found = self.get(clone)?.clones.get(&node).copied();
        let found = found.filter(|copy| self.nodes.get(*copy).is_some());
        found.ok_or(CuResult::INVALID_VALUE)
    }

    /// Whether a graph or one of its children has nodes of memory.
    pub fn has_memory_anywhere(&self, graph: usize) -> Answer<bool> {
        let found = self.get(graph)?;
        if found.has_memory() {
            return Ok(true);
        }
        for node in found.nodes.values() {
            if let Work::Graph(child) = node.work
                && self.has_memory_anywhere(child)?
            {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

impl State {
    /// `cuGraphDestroy`. What is left to call without the lock is returned.
    pub fn destroy_graph(&mut self, graph: usize) -> Answer<Ended> {
        require(!self.graphs.get(graph)?.is_child)?;
        let mut ended = Ended::default();
        self.end_graph(graph, &mut ended);
        Ok(ended)
    }

    /// `cuGraphDestroyNode`: not in graphs with memory.
    pub fn destroy_node(&mut self, node: usize) -> Answer<Ended> {
        let graph = self.graphs.graph_of(node)?;
        if self.graphs.has_memory_anywhere(graph)? {
            return Err(CuResult::NOT_SUPPORTED);
        }
        let found = self.graphs.get_mut(graph)?;
        let gone = found.nodes.remove(&node);
        for other in found.nodes.values_mut() {
            other.after.remove(&node);
        }
        self.graphs.nodes.remove(node);
        let mut ended = Ended::default();
        if let Some(Work::Graph(child)) = gone.map(|node| node.work) {
            self.end_graph(child, &mut ended);
        }
        Ok(ended)
    }

    fn end_graph(&mut self, graph: usize, ended: &mut Ended) {
        let Some(gone) = self.graphs.live.remove(graph) else {
            return;
        };
        for (handle, node) in gone.nodes {
            self.graphs.nodes.remove(handle);
            if let Work::Graph(child) = node.work {
                self.end_graph(child, ended);
            }
        }
        for address in gone.allocations {
            self.drop_graph_address(address);
        }
        for (object, count) in gone.objects {
            // A graph holds only live objects.
            let _ = self.graphs.release_object(object, count, ended);
        }
    }
}
