//! All graphs, their executables and their memory.

use super::graph::*;
use super::graph_memory::GraphMemory;
use super::handles::Handles;
use super::user_object::UserObject;
use crate::ffi::{Answer, CuError, require};
use std::collections::{BTreeMap, BTreeSet};

/// All graphs, their executables and their memory.
#[derive(Debug)]
pub struct Graphs {
    /// Graphs.
    pub live: Handles<Graph>,
    /// The graph of each node.
    pub nodes: Handles<usize>,
    /// Executable graphs.
    pub executables: Handles<super::executable::Executable>,
    /// User objects.
    pub objects: Handles<UserObject>,
    /// Memory of allocation nodes.
    pub memory: GraphMemory,
    pub(crate) next_id: u32,
}

impl Graphs {
    /// No graphs, for this number of devices.
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

    /// A new number for a graph or an executable.
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

    /// The graph with a handle.
    pub fn get(&self, graph: usize) -> Answer<&Graph> {
        self.live.get(graph).ok_or(CuError::INVALID_VALUE)
    }

    /// A mutable graph.
    pub fn get_mut(&mut self, graph: usize) -> Answer<&mut Graph> {
        self.live.get_mut(graph).ok_or(CuError::INVALID_VALUE)
    }

    /// The graph of a node.
    pub fn graph_of(&self, node: usize) -> Answer<usize> {
        let found = self.nodes.get(node).copied();
        found.ok_or(CuError::INVALID_VALUE)
    }

    /// The node with a handle.
    pub fn node(&self, node: usize) -> Answer<&Node> {
        let graph = self.get(self.graph_of(node)?)?;
        graph.nodes.get(&node).ok_or(CuError::INVALID_VALUE)
    }

    /// A mutable node.
    pub fn node_mut(&mut self, node: usize) -> Answer<&mut Node> {
        let graph = self.graph_of(node)?;
        let graph = self.get_mut(graph)?;
        graph.nodes.get_mut(&node).ok_or(CuError::INVALID_VALUE)
    }

    /// Checks the nodes of a call: live, in this graph, without duplicates.
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

    /// `cuGraphRemoveDependencies`: fails for graphs with memory.
    pub fn disconnect(&mut self, graph: usize, from: &[usize], to: &[usize]) -> Answer {
        if self.get(graph)?.has_memory() {
            return Err(CuError::NOT_SUPPORTED);
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

    /// `cuGraphClone`: fails for graphs with memory.
    pub fn clone_graph(&mut self, original: usize) -> Answer<usize> {
        if self.has_memory_anywhere(original)? {
            return Err(CuError::NOT_SUPPORTED);
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

    /// Makes a graph the property of a child node.
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
        found.ok_or(CuError::INVALID_VALUE)
    }

    /// Whether a graph or one of its children has memory nodes.
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
