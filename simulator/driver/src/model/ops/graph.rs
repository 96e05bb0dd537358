//! Operations on the state: graphs.

use crate::ffi::{Answer, CuError, require};
use crate::model::State;
use crate::model::graph::*;
use crate::model::user_object::Ended;

impl State {
    /// `cuGraphDestroy`. Returns the calls to make without the lock.
    pub fn destroy_graph(&mut self, graph: usize) -> Answer<Ended> {
        require(!self.graphs.get(graph)?.is_child)?;
        let mut ended = Ended::default();
        self.end_graph(graph, &mut ended);
        Ok(ended)
    }

    /// `cuGraphDestroyNode`: fails for graphs with memory.
    pub fn destroy_node(&mut self, node: usize) -> Answer<Ended> {
        let graph = self.graphs.graph_of(node)?;
        if self.graphs.has_memory_anywhere(graph)? {
            return Err(CuError::NOT_SUPPORTED);
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

    pub(crate) fn end_graph(&mut self, graph: usize, ended: &mut Ended) {
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
