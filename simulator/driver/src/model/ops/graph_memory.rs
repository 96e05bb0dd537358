//! What calls do to the state: memory of graphs: addresses that allocation nodes have for good, and the pages behind them.

use crate::ffi::{Answer, CuError, require};
use crate::host::{self, Access};
use crate::model::State;
use crate::model::graph::Work;
use crate::model::graph_memory::*;
use crate::model::kind::Kind;
use crate::model::memory::{Allocation, Backing, whole_pages};
use crate::model::pool::CHUNK_BYTES;
use std::collections::{BTreeMap, BTreeSet};

impl State {
    /// An allocation node: its address.
    pub fn add_allocation(
        &mut self,
        graph: usize,
        after: &[usize],
        device: usize,
        bytes: u64,
    ) -> Answer<(usize, u64)> {
        require(bytes > 0)?;
        self.graphs.get(graph)?;
        self.graphs.check_nodes(graph, after)?;
        let total = self.books.device(device).total_bytes();
        if bytes > total {
            return Err(CuError::OUT_OF_MEMORY);
        }
        let page = self.machine.page_bytes;
        let base = host::map(bytes, page, Access::ReadWrite).ok_or(CuError::OUT_OF_MEMORY)?;
        let reserved = Reserved {
            device,
            bytes,
            freed: Freed::Outside,
            graph,
            holders: 1,
        };
        self.graphs.memory.addresses.insert(base, reserved);
        self.graphs.get_mut(graph)?.allocations.insert(base);
        let node = self.graphs.add(graph, after, Work::Allocate(base))?;
        Ok((node, base))
    }

    /// A free node, of an allocation node's address that no other node frees.
    pub fn add_free(&mut self, graph: usize, after: &[usize], address: u64) -> Answer<usize> {
        let found = self.graphs.memory.addresses.get(&address);
        let found = found.ok_or(CuError::INVALID_VALUE)?;
        let freed = match found.freed {
            Freed::Outside if found.graph == graph => Freed::Inside,
            Freed::Outside | Freed::Elsewhere if found.graph != graph => Freed::Elsewhere,
            _ => return Err(CuError::INVALID_VALUE),
        };
        let twice = self.graphs.get(graph)?.nodes.values();
        require(
            !twice
                .into_iter()
                .any(|node| node.work == Work::Free(address)),
        )?;
        let node = self.graphs.add(graph, after, Work::Free(address))?;
        if let Some(found) = self.graphs.memory.addresses.get_mut(&address) {
            found.freed = freed;
        }
        Ok(node)
    }

    /// One more that needs an address.
    pub fn hold_graph_address(&mut self, address: u64) {
        if let Some(found) = self.graphs.memory.addresses.get_mut(&address) {
            found.holders += 1;
        }
    }

    /// One fewer. With the last the address is given back.
    pub fn drop_graph_address(&mut self, address: u64) {
        let Some(found) = self.graphs.memory.addresses.get_mut(&address) else {
            return;
        };
        found.holders -= 1;
        if found.holders == 0 {
            host::unmap(address, found.bytes);
            self.graphs.memory.addresses.remove(&address);
        }
    }

    /// Whether a graph's allocation is live.
    pub fn is_live(&self, address: u64) -> bool {
        let found = self.memory.at(address);
        found.is_some_and(|found| found.backing == Backing::Graph)
    }

    /// What a launch of `steps` has live at its worst, with `freed` freed before it.
    ///
    /// # Errors
    /// `INVALID_VALUE` if it allocates what is live, or frees what is not.
    pub fn worst_of<'a>(
        &self,
        steps: impl Iterator<Item = &'a Work>,
        freed: &[u64],
    ) -> Answer<Worst> {
        let mut gone: BTreeSet<u64> = freed.iter().copied().collect();
        let mut new = BTreeSet::new();
        let mut now: Worst = BTreeMap::new();
        for (device, kept) in self.graphs.memory.devices.iter().enumerate() {
            now.insert(device, kept.live);
        }
        for address in freed {
            let (device, bytes) = self.step_of(*address)?;
            *now.entry(device).or_default() -= bytes;
        }
        let mut worst = Worst::new();
        for work in steps {
            match work {
                Work::Allocate(address) => {
                    let live = self.is_live(*address) && !gone.contains(address);
                    require(!live && new.insert(*address))?;
                    let (device, bytes) = self.step_of(*address)?;
                    let live = now.entry(device).or_default();
                    *live += bytes;
                    let most = worst.entry(device).or_default();
                    *most = (*most).max(*live);
                }
                Work::Free(address) => {
                    let was_live = self.is_live(*address) && gone.insert(*address);
                    require(new.remove(address) || was_live)?;
                    let (device, bytes) = self.step_of(*address)?;
                    *now.entry(device).or_default() -= bytes;
                }
                _ => {}
            }
        }
        Ok(worst)
    }

    pub(crate) fn step_of(&self, address: u64) -> Answer<(usize, u64)> {
        let found = self.graphs.memory.addresses.get(&address);
        let found = found.ok_or(CuError::INVALID_VALUE)?;
        Ok((found.device, found.bytes.next_multiple_of(STEP)))
    }

    /// Takes the pages that a launch needs at its worst.
    ///
    /// # Errors
    /// `OUT_OF_MEMORY`.
    pub fn back_graphs(&mut self, worst: &Worst) -> Answer {
        let page = self.machine.page_bytes;
        for (device, bytes) in worst {
            let promised = self.graphs.memory.devices[*device].promised;
            let needed = *bytes + promised;
            let reserved = self.graphs.memory.devices[*device].reserved.current;
            let missing = |wanted: u64| wanted.saturating_sub(reserved);
            let mut more = missing(whole_pages(needed, CHUNK_BYTES.max(page))?);
            if self.take_pages_for(*device, more, false).is_err() {
                more = missing(whole_pages(needed, page)?);
                self.take_pages_for(*device, more, false)?;
            }
            self.graphs.memory.devices[*device].grow(more);
        }
        Ok(())
    }

    /// A launch that has its pages begins: until [`State::keep_promise`] nobody else may use them. What it
    /// has live on each device beyond what is live now.
    pub fn promise(&mut self, worst: &Worst) -> Worst {
        let mut promised = Worst::new();
        for (device, bytes) in worst {
            let kept = &mut self.graphs.memory.devices[*device];
            let more = bytes.saturating_sub(kept.live);
            kept.promised += more;
            promised.insert(*device, more);
        }
        promised
    }

    /// The launch is done.
    pub fn keep_promise(&mut self, promised: &Worst) {
        for (device, bytes) in promised {
            self.graphs.memory.devices[*device].promised -= bytes;
        }
    }

    /// The memory of an allocation node, from now on.
    pub fn start_graph_allocation(&mut self, address: u64) -> Answer {
        let (device, step) = self.step_of(address)?;
        require(!self.is_live(address))?;
        let Some(found) = self.graphs.memory.addresses.get_mut(&address) else {
            return Err(CuError::INVALID_VALUE);
        };
        found.holders += 1;
        let bytes = found.bytes;
        self.graphs.memory.devices[device].live += step;
        self.books.device_mut(device).allocated(Kind::Graph, bytes);
        self.memory.insert(Allocation {
            base: address,
            bytes,
            kind: Kind::Graph,
            context: 0,
            device,
            flags: 0,
            id: 0,
            backing: Backing::Graph,
            access: Access::ReadWrite,
        });
        Ok(())
    }

    /// Ends it, for a free node.
    pub fn end_graph_allocation(&mut self, address: u64) -> Answer {
        require(self.is_live(address))?;
        self.free_allocation(address);
        Ok(())
    }

    /// Whether the program may free an address itself: not what a node of its own graph frees.
    pub fn may_free_graph_allocation(&self, address: u64) -> bool {
        let found = self.graphs.memory.addresses.get(&address);
        found.is_some_and(|found| found.freed != Freed::Inside)
    }

    /// What is left when such memory was taken out of the books.
    pub(crate) fn give_to_graphs(&mut self, device: usize, address: u64, bytes: u64) {
        let step = bytes.next_multiple_of(STEP);
        self.graphs.memory.devices[device].live -= step;
        self.drop_graph_address(address);
    }

    /// `cuDeviceGraphMemTrim`: gives back the pages that nobody uses.
    pub fn trim_graphs_of(&mut self, device: usize) {
        let page = self.machine.page_bytes;
        let unused = self.graphs.memory.unused_bytes(device, page);
        let kept = &mut self.graphs.memory.devices[device];
        kept.shrink(unused);
        self.books.device_mut(device).give_physical(unused);
    }
}
