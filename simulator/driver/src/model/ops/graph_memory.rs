//! Operations on the state: memory of graphs.

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
    /// Adds an allocation node. Returns its address.
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

    /// Adds a free node, for an allocation node's address that no other node frees.
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

    /// Adds a user of an address.
    pub fn hold_graph_address(&mut self, address: u64) {
        if let Some(found) = self.graphs.memory.addresses.get_mut(&address) {
            found.holders += 1;
        }
    }

    /// Removes a user of an address. With the last one the address is freed.
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

    /// The peak of a launch of `steps`, after `freed` has been freed.
    ///
    /// # Errors
    /// `INVALID_VALUE` if it allocates live memory, or frees memory that is not live.
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

    /// Takes the pages for the peak of a launch.
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

    /// Reserves pages for a launch until [`State::keep_promise`], so that no other launch uses
    /// them. Returns the bytes on each device that the launch may have live in addition to the
    /// current ones.
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

    /// Releases the pages of a launch that is complete.
    pub fn keep_promise(&mut self, promised: &Worst) {
        for (device, bytes) in promised {
            self.graphs.memory.devices[*device].promised -= bytes;
        }
    }

    /// Makes the memory of an allocation node live.
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

    /// Frees the memory, for a free node.
    pub fn end_graph_allocation(&mut self, address: u64) -> Answer {
        require(self.is_live(address))?;
        self.free_allocation(address);
        Ok(())
    }

    /// Whether the program may free an address: false if a node of the same graph frees it.
    pub fn may_free_graph_allocation(&self, address: u64) -> bool {
        let found = self.graphs.memory.addresses.get(&address);
        found.is_some_and(|found| found.freed != Freed::Inside)
    }

    /// Updates the device's live bytes after such memory was removed from the books.
    pub(crate) fn give_to_graphs(&mut self, device: usize, address: u64, bytes: u64) {
        let step = bytes.next_multiple_of(STEP);
        self.graphs.memory.devices[device].live -= step;
        self.drop_graph_address(address);
    }

    /// `cuDeviceGraphMemTrim`: frees the unused pages.
    pub fn trim_graphs_of(&mut self, device: usize) {
        let page = self.machine.page_bytes;
        let unused = self.graphs.memory.unused_bytes(device, page);
        let kept = &mut self.graphs.memory.devices[device];
        kept.shrink(unused);
        self.books.device_mut(device).give_physical(unused);
    }
}
