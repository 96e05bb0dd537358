//! Operations on the state: allocations.

use crate::ffi::{Answer, CuError, require};
use crate::host::{self, Access};
use crate::model::State;
use crate::model::context::Current;
use crate::model::kind::{Holding, Kind};
use crate::model::memory::*;

/// Memory that an H100 gave a context at its first managed memory on the device, in addition to
/// that memory, and took back with the context (docs/simulator.md).
const FIRST_MANAGED_BYTES: u64 = 64 << 20;

impl State {
    /// Takes physical memory of the card. If there is too little, pools free their unused memory
    /// and managed memory moves to the host, as in a real driver, before the call fails.
    pub fn take_pages(&mut self, device: usize, bytes: u64) -> Answer {
        self.take_pages_for(device, bytes, true)
    }

    /// The same; with `from_graphs`, unused memory of graphs is freed, too.
    pub fn take_pages_for(&mut self, device: usize, bytes: u64, from_graphs: bool) -> Answer {
        if self.books.device_mut(device).take_physical(bytes).is_ok() {
            return Ok(());
        }
        let managed: u64 = self.managed_on(device).map(|(_, resident)| resident).sum();
        let books = self.books.device(device);
        let attainable = books.free_bytes() + self.pools.unused_bytes(device) + managed;
        let page = self.machine.page_bytes;
        let of_graphs = match from_graphs {
            true => self.graphs.memory.unused_bytes(device, page),
            false => 0,
        };
        if bytes > attainable + of_graphs {
            return Err(CuError::OUT_OF_MEMORY);
        }
        self.trim_pools_of(device);
        if from_graphs {
            self.trim_graphs_of(device);
        }
        self.evict_managed(device, bytes);
        self.books.device_mut(device).take_physical(bytes)
    }

    /// Takes physical memory for a context or a module.
    pub fn take_held(&mut self, device: usize, holding: Holding, bytes: u64) -> Answer {
        self.take_pages(device, bytes)?;
        self.books.device_mut(device).holds(holding, bytes);
        Ok(())
    }

    /// `cuMemAlloc` and arrays.
    pub fn allocate_device(&mut self, current: Current, bytes: u64, kind: Kind) -> Answer<u64> {
        require(bytes > 0)?;
        let page = self.machine.page_bytes;
        // Arrays have a different layout: they share no page with other memory.
        let (base, backing) = if bytes <= page / 2 && kind != Kind::Array {
            (self.allocate_small(current, bytes)?, Backing::Small)
        } else {
            self.allocate_pages(current.device, bytes)?
        };
        self.keep(current, base, bytes, kind, 0, backing);
        Ok(base)
    }

    /// `cuMemAllocManaged`. It takes device memory only when the device touches it. It may be
    /// larger than the card.
    pub fn allocate_managed(&mut self, current: Current, bytes: u64, flags: u32) -> Answer<u64> {
        require(bytes > 0)?;
        let page = self.machine.page_bytes;
        whole_pages(bytes, page)?;
        let base = host::map(bytes, page, Access::ReadWrite).ok_or(CuError::OUT_OF_MEMORY)?;
        let backing = Backing::Pages {
            mapped: bytes,
            physical: 0,
        };
        self.keep(current, base, bytes, Kind::Managed, flags, backing);
        Ok(base)
    }

    /// `cuMemHostAlloc` and `cuMemAllocHost`.
    pub fn allocate_host(&mut self, current: Current, bytes: u64, flags: u32) -> Answer<u64> {
        require(bytes > 0)?;
        let base = host::map(bytes, 4096, Access::ReadWrite).ok_or(CuError::OUT_OF_MEMORY)?;
        let backing = Backing::Pages {
            mapped: bytes,
            physical: 0,
        };
        self.keep(current, base, bytes, Kind::Host, flags, backing);
        Ok(base)
    }

    /// `cuMemHostRegister`.
    pub fn register_host(&mut self, current: Current, base: u64, bytes: u64, flags: u32) -> Answer {
        require(base != 0 && bytes > 0)?;
        let end = base.checked_add(bytes).ok_or(CuError::INVALID_VALUE)?;
        let before = self.memory.by_base.range(..end).next_back();
        if before.is_some_and(|(_, other)| other.base + other.bytes > base) {
            return Err(CuError::HOST_MEMORY_ALREADY_REGISTERED);
        }
        self.keep(
            current,
            base,
            bytes,
            Kind::Registered,
            flags,
            Backing::Foreign,
        );
        Ok(())
    }

    /// `cuMemHostUnregister`.
    pub fn unregister_host(&mut self, base: u64) -> Answer {
        match self.memory.at(base) {
            Some(found) if found.kind == Kind::Registered => {
                self.free_allocation(base);
                Ok(())
            }
            Some(_) => Err(CuError::INVALID_VALUE),
            None => Err(CuError::HOST_MEMORY_NOT_REGISTERED),
        }
    }

    /// `cuMemFree`: frees the same memory as `cuMemFreeAsync`, at once.
    pub fn free_now(&mut self, base: u64) -> Answer {
        let found = self.memory.at(base).copied();
        self.free_device(base)?;
        if let Some(Allocation {
            backing: Backing::Pool { pool },
            bytes,
            ..
        }) = found
        {
            self.freed_beside_pool(pool, bytes);
        }
        Ok(())
    }

    /// `cuMemFreeAsync`: device, managed and stream-ordered memory (of pools on the host, too), and memory that was imported
    /// from a pool or another interface.
    pub fn free_device(&mut self, base: u64) -> Answer {
        let found = self.memory.at(base).ok_or(CuError::INVALID_VALUE)?;
        let is_of_pool = matches!(found.backing, Backing::Pool { .. });
        let freeable = matches!(found.kind, Kind::Device | Kind::Managed | Kind::Async)
            || is_of_pool
            || self.may_free_graph_allocation(base);
        let freeable = freeable
            && match found.backing {
                Backing::Imported { from, .. } => matches!(from, Import::Pool | Import::External),
                _ => found.is_counted(),
            };
        require(freeable)?;
        self.free_allocation(base);
        Ok(())
    }

    /// `cuMemFreeHost`.
    pub fn free_host(&mut self, base: u64) -> Answer {
        let found = self.memory.at(base).ok_or(CuError::INVALID_VALUE)?;
        let is_of_pool = matches!(found.backing, Backing::Pool { .. });
        require(found.kind == Kind::Host && found.is_counted() && !is_of_pool)?;
        self.free_allocation(base);
        Ok(())
    }

    /// A module's variable of `bytes` bytes: an address that is not in the books.
    pub fn allocate_global(&mut self, current: Current, bytes: u64) -> Answer<u64> {
        let base = host::map(bytes, 4096, Access::ReadWrite).ok_or(CuError::OUT_OF_MEMORY)?;
        let backing = Backing::Global { mapped: bytes };
        self.keep(current, base, bytes, Kind::Device, 0, backing);
        Ok(base)
    }

    /// Frees the allocation that starts at `base` and records it in the books.
    pub fn free_allocation(&mut self, base: u64) {
        let Some(gone) = self.memory.remove(base) else {
            return;
        };
        let books = self.books.device_mut(gone.device);
        if gone.is_counted() {
            books.freed(gone.kind, gone.bytes);
        }
        match gone.backing {
            Backing::Pages { mapped, physical } => {
                host::unmap(base, mapped);
                if gone.kind == Kind::Managed {
                    books.give_held(Holding::Resident, physical);
                } else {
                    let file = self.forget_shared(base);
                    self.give_when_unheld(gone.device, physical, file);
                }
            }
            Backing::Small => {
                let page = self.machine.page_bytes;
                let unused = match self.contexts.get_mut(gone.context) {
                    Ok(context) => context.small.give(base, gone.bytes),
                    Err(_) => None,
                };
                if let Some(unused) = unused {
                    host::unmap(unused, page);
                    let file = self.forget_shared(unused);
                    self.give_when_unheld(gone.device, page, file);
                }
            }
            Backing::Pool { pool } => self.give_to_pool(pool, base, gone.bytes),
            Backing::Graph => self.give_to_graphs(gone.device, base, gone.bytes),
            Backing::Global { mapped } => host::unmap(base, mapped),
            Backing::Imported { start, mapped, .. } => {
                self.forget_opened(base);
                host::unmap(start, mapped);
            }
            Backing::Mapping | Backing::Multicast | Backing::Foreign => {}
        }
    }

    /// Frees all memory of a context.
    pub fn free_allocations_of_context(&mut self, context: usize) {
        let bases: Vec<u64> = self
            .memory
            .iter()
            .filter(|allocation| allocation.context == context)
            .map(|allocation| allocation.base)
            .collect();
        for base in bases {
            self.free_allocation(base);
        }
    }

    /// Frees the remaining memory of a device without a context: its pools, graphs' memory and
    /// physical handles.
    pub fn free_everything_on(&mut self, device: usize) {
        let bases: Vec<u64> = self
            .memory
            .iter()
            .filter(|a| {
                let is_here = a.device == device && !a.is_host();
                is_here && matches!(a.backing, Backing::Pool { .. } | Backing::Graph)
            })
            .map(|allocation| allocation.base)
            .collect();
        for base in bases {
            self.free_allocation(base);
        }
        self.trim_pools_of(device);
        self.trim_graphs_of(device);
        self.drop_handles_of(device);
    }

    /// Moves managed memory between the card and the host; `resident` is the target state.
    pub fn migrate_managed(&mut self, base: u64, resident: bool) {
        let Some(found) = self.memory.at(base).copied() else {
            return;
        };
        let Backing::Pages { mapped, physical } = found.backing else {
            return;
        };
        let page = self.machine.page_bytes;
        let books = self.books.device_mut(found.device);
        let physical = if resident {
            let more = mapped.next_multiple_of(page) - physical;
            physical + books.take_resident(more, page)
        } else {
            books.give_held(Holding::Resident, physical);
            0
        };
        if let Some(found) = self.memory.at_mut(base) {
            found.backing = Backing::Pages { mapped, physical };
        }
        if resident {
            self.pay_for_managed(found.context);
        }
    }

    /// Takes the additional memory that the first managed memory on the device costs its context,
    /// if there is room for it.
    fn pay_for_managed(&mut self, context: usize) {
        let Ok(found) = self.contexts.get_mut(context) else {
            return;
        };
        let books = self.books.device_mut(found.device);
        if found.managed_bytes == 0 && books.take_physical(FIRST_MANAGED_BYTES).is_ok() {
            books.holds(Holding::Touched, FIRST_MANAGED_BYTES);
            found.managed_bytes = FIRST_MANAGED_BYTES;
        }
    }

    /// The device accesses an address: managed memory there moves to the device, as far as it fits.
    pub fn touch(&mut self, address: u64) {
        let found = self.memory.holding(address);
        if let Some(found) = found.filter(|found| found.kind == Kind::Managed) {
            self.migrate_managed(found.base, true);
        }
    }

    /// A kernel runs. Code is never read: it may touch all managed memory of the context.
    pub fn touch_all(&mut self, at: Current) {
        if self.books.device(at.device).kind(Kind::Managed).current == 0 {
            return;
        }
        let mine = self
            .memory
            .iter()
            .filter(|found| found.kind == Kind::Managed);
        let bases: Vec<u64> = mine
            .filter(|found| found.context == at.context)
            .map(|found| found.base)
            .collect();
        for base in bases {
            self.migrate_managed(base, true);
        }
    }

    pub(crate) fn evict_managed(&mut self, device: usize, bytes: u64) {
        let managed: Vec<(u64, u64)> = self.managed_on(device).collect();
        for (base, _) in managed {
            if self.books.device(device).free_bytes() >= bytes {
                return;
            }
            self.migrate_managed(base, false);
        }
    }

    /// Managed allocations of a device, with their address and resident bytes.
    pub(crate) fn managed_on(&self, device: usize) -> impl Iterator<Item = (u64, u64)> {
        let all = self.memory.iter().filter(move |a| a.device == device);
        all.filter_map(|a| match a.backing {
            Backing::Pages { physical, .. } if a.kind == Kind::Managed => Some((a.base, physical)),
            _ => None,
        })
    }

    pub(crate) fn allocate_small(&mut self, current: Current, bytes: u64) -> Answer<u64> {
        let context = self.contexts.get_mut(current.context)?;
        if let Some(base) = context.small.take(bytes) {
            return Ok(base);
        }
        let page = self.machine.page_bytes;
        let (base, _) = self.allocate_pages(current.device, page)?;
        let context = self.contexts.get_mut(current.context)?;
        context.small.add_page(base, page);
        context.small.take(bytes).ok_or(CuError::OUT_OF_MEMORY)
    }

    pub(crate) fn allocate_pages(&mut self, device: usize, bytes: u64) -> Answer<(u64, Backing)> {
        let page = self.machine.page_bytes;
        let physical = whole_pages(bytes, page)?;
        self.take_pages(device, physical)?;
        match host::map(bytes, page, Access::ReadWrite) {
            Some(base) => Ok((
                base,
                Backing::Pages {
                    mapped: bytes,
                    physical,
                },
            )),
            None => {
                self.books.device_mut(device).give_physical(physical);
                Err(CuError::OUT_OF_MEMORY)
            }
        }
    }

    pub(crate) fn keep(
        &mut self,
        at: Current,
        base: u64,
        bytes: u64,
        kind: Kind,
        flags: u32,
        to: Backing,
    ) {
        let allocation = Allocation {
            base,
            bytes,
            kind,
            context: at.context,
            device: at.device,
            flags,
            id: 0,
            backing: to,
            access: Access::ReadWrite,
        };
        if allocation.is_counted() {
            self.books.device_mut(at.device).allocated(kind, bytes);
        }
        self.memory.insert(allocation);
    }
}
