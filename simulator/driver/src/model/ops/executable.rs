//! Operations on the state: executable graphs.

use crate::ffi::{Answer, CuError, require};
use crate::model::State;
use crate::model::executable::*;
use crate::model::graph::Work;
use crate::model::graph_memory::Worst;
use crate::model::graphs::Graphs;
use crate::model::user_object::Ended;
use std::collections::BTreeMap;

impl State {
    /// `cuGraphInstantiate`: a graph with memory can have one executable at a time.
    pub fn instantiate(&mut self, graph: usize, flags: u64) -> Answer<usize> {
        require(flags & !FLAGS == 0)?;
        if flags & DEVICE_LAUNCH != 0 {
            return Err(CuError::NOT_SUPPORTED);
        }
        let has_memory = self.graphs.has_memory_anywhere(graph)?;
        if has_memory && self.graphs.get(graph)?.executables > 0 {
            return Err(CuError::NOT_SUPPORTED);
        }
        let mut steps = Vec::new();
        self.graphs.steps(graph, &mut steps)?;
        let objects = self.graphs.get(graph)?.objects.clone();
        for (object, count) in &objects {
            self.graphs.retain_object(*object, *count)?;
        }
        let made = Executable {
            id: self.graphs.number(),
            flags,
            steps,
            graph,
            objects,
        };
        for address in made.allocations() {
            self.hold_graph_address(address);
        }
        self.graphs.get_mut(graph)?.executables += 1;
        Ok(self.graphs.executables.insert(made))
    }

    /// `cuGraphExecDestroy`. Its allocations that were not freed stay live.
    pub fn destroy_executable(&mut self, handle: usize) -> Answer<Ended> {
        let gone = self.graphs.executables.remove(handle);
        let gone = gone.ok_or(CuError::INVALID_VALUE)?;
        if let Ok(graph) = self.graphs.get_mut(gone.graph) {
            graph.executables -= 1;
        }
        for address in gone.allocations() {
            self.drop_graph_address(address);
        }
        let mut ended = Ended::default();
        for (object, count) in gone.objects {
            // An executable holds only live objects.
            let _ = self.graphs.release_object(object, count, &mut ended);
        }
        Ok(ended)
    }

    /// `cuGraphExecUpdate`: copies the parameters of a graph of the same shape.
    pub fn update_executable(
        &mut self,
        handle: usize,
        graph: usize,
    ) -> Answer<Result<(), Difference>> {
        const TOPOLOGY: u32 = 2;
        const KIND: u32 = 3;
        const PARAMETERS: u32 = 5;
        let mut new = Vec::new();
        self.graphs.steps(graph, &mut new)?;
        let old = &self.graphs.executable(handle)?.steps;
        let differs = |result: u32, node: usize| Ok(Err(Difference { result, node }));
        for (old, new) in old.iter().zip(&new) {
            if old.work.kind() != new.work.kind() {
                return differs(KIND, new.node);
            }
            if old.after != new.after {
                return differs(TOPOLOGY, new.node);
            }
            if old.work.is_memory() && old.work != new.work {
                return differs(PARAMETERS, new.node);
            }
        }
        if old.len() != new.len() {
            return differs(TOPOLOGY, 0);
        }
        for (old, new) in self
            .graphs
            .executable_mut(handle)?
            .steps
            .iter_mut()
            .zip(new)
        {
            old.work = new.work;
        }
        Ok(Ok(()))
    }

    /// The peak of a launch, and the allocations that it frees first.
    pub(crate) fn need(&self, handle: usize) -> Answer<(Worst, Vec<u64>)> {
        let found = self.graphs.executable(handle)?;
        let mut unfreed = found.allocations();
        unfreed.retain(|address| self.is_live(*address));
        require(unfreed.is_empty() || found.flags & AUTO_FREE != 0)?;
        Ok((self.worst_of(found.enabled(), &unfreed)?, unfreed))
    }

    /// `cuGraphUpload`: takes the pages that a launch needs.
    pub fn upload(&mut self, handle: usize) -> Answer {
        let (worst, _) = self.need(handle)?;
        self.back_graphs(&worst)
    }

    /// The start of `cuGraphLaunch`: everything that can fail is checked and the pages are taken.
    /// The caller does the work.
    pub fn begin_launch(&mut self, handle: usize) -> Answer<Launch> {
        let (worst, unfreed) = self.need(handle)?;
        self.back_graphs(&worst)?;
        for address in unfreed {
            self.free_allocation(address);
        }
        let promised = self.promise(&worst);
        let found = self.graphs.executable(handle)?;
        Ok(Launch {
            works: found.enabled().cloned().collect(),
            promised,
        })
    }
}

impl Graphs {
    /// An executable.
    pub fn executable(&self, handle: usize) -> Answer<&Executable> {
        let found = self.executables.get(handle);
        found.ok_or(CuError::INVALID_VALUE)
    }

    /// A mutable executable.
    pub fn executable_mut(&mut self, handle: usize) -> Answer<&mut Executable> {
        let found = self.executables.get_mut(handle);
        found.ok_or(CuError::INVALID_VALUE)
    }

    /// The work of a graph and its children, in order.
    pub(crate) fn steps(&self, graph: usize, into: &mut Vec<Step>) -> Answer {
        let found = self.get(graph)?;
        let mut places = BTreeMap::new();
        for handle in found.order()? {
            let node = self.node(handle)?;
            let after = node.after.iter().filter_map(|n| places.get(n).copied());
            let mut step = Step {
                node: handle,
                work: node.work.clone(),
                enabled: true,
                after: after.collect(),
            };
            if let Work::Graph(child) = node.work {
                self.steps(child, into)?;
                step.after.clear();
                step.work = Work::Empty;
            }
            places.insert(handle, into.len());
            into.push(step);
        }
        Ok(())
    }
}
