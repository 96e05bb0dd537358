//! Allocations: device, managed, pinned, registered. They are found by any address inside them.

use super::kind::Kind;
use crate::ffi::{Answer, CuError};
use crate::host::Access;
use std::collections::BTreeMap;

/// The real location of an allocation's bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Backing {
    /// Separate pages: host address space of `mapped` bytes, `physical` bytes of the card.
    Pages {
        /// Bytes of address space.
        mapped: u64,
        /// Bytes of the card; for managed memory, those resident now.
        physical: u64,
    },
    /// Part of a page that small allocations share.
    Small,
    /// Part of a memory pool.
    Pool {
        /// The pool's handle.
        pool: usize,
    },
    /// Memory of a graph's allocation node.
    Graph,
    /// A mapping of a physical handle (`cuMemMap`).
    Mapping,
    /// A mapping of a multicast object: addresses that only kernels can use.
    Multicast,
    /// Memory of another owner: registered host memory, an import.
    Foreign,
    /// Memory of another process or interface, mapped here.
    Imported {
        /// Where its mapping starts.
        start: u64,
        /// Bytes of address space.
        mapped: u64,
        /// How it was imported, which defines how it is released.
        from: Import,
    },
    /// A module's variable.
    Global {
        /// Bytes of address space.
        mapped: u64,
    },
}

/// How memory of others was imported.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Import {
    /// `cuIpcOpenMemHandle`; released by `cuIpcCloseMemHandle`.
    Ipc,
    /// `cuMemPoolImportPointer`; released by `cuMemFree` or `cuMemFreeAsync`.
    Pool,
    /// `cuExternalMemoryGetMappedBuffer`; released by `cuMemFree`.
    External,
    /// `cuExternalMemoryGetMappedMipmappedArray`; released by `cuMipmappedArrayDestroy`.
    Array,
}

/// One allocation.
#[derive(Clone, Copy, Debug)]
pub struct Allocation {
    /// Its first byte.
    pub base: u64,
    /// Requested bytes.
    pub bytes: u64,
    /// Its kind.
    pub kind: Kind,
    /// The context that it belongs to; 0 if it belongs only to its device.
    pub context: usize,
    /// Its device.
    pub device: usize,
    /// Flags of the call that made it.
    pub flags: u32,
    /// Its number, which is never reused (`CU_POINTER_ATTRIBUTE_BUFFER_ID`).
    pub id: u64,
    /// The location of its bytes.
    pub backing: Backing,
    /// The allowed access.
    pub access: Access,
}

impl Allocation {
    /// Whether it is in host memory.
    pub fn is_host(&self) -> bool {
        matches!(self.kind, Kind::Host | Kind::Registered)
    }

    /// Whether the books count it as an allocation. Mappings, imports and module variables are
    /// addresses of bytes that are counted elsewhere or not at all.
    pub fn is_counted(&self) -> bool {
        let aliased = matches!(
            self.backing,
            Backing::Mapping
                | Backing::Multicast
                | Backing::Global { .. }
                | Backing::Imported { .. }
        );
        !aliased
    }
}

/// Allocations by address.
#[derive(Debug, Default)]
pub struct Memory {
    pub(crate) by_base: BTreeMap<u64, Allocation>,
    pub(crate) next_id: u64,
}

impl Memory {
    /// The allocation that starts at `base`.
    pub fn at(&self, base: u64) -> Option<&Allocation> {
        self.by_base.get(&base)
    }

    /// The allocation that contains `address`.
    pub fn holding(&self, address: u64) -> Option<&Allocation> {
        let (_, allocation) = self.by_base.range(..=address).next_back()?;
        (address - allocation.base < allocation.bytes).then_some(allocation)
    }

    /// Whether a range consists of contiguous allocations that allow `access`.
    pub fn covers(&self, address: u64, bytes: u64, access: Access) -> bool {
        let Some(end) = address.checked_add(bytes) else {
            return false;
        };
        let mut at = address;
        while at < end {
            let Some(allocation) = self.holding(at) else {
                return false;
            };
            if allocation.access.flags() & access.flags() != access.flags()
                || allocation.backing == Backing::Multicast
            {
                return false;
            }
            at = allocation.base + allocation.bytes;
        }
        true
    }

    /// Every allocation.
    pub fn iter(&self) -> impl Iterator<Item = &Allocation> {
        self.by_base.values()
    }

    /// Adds an allocation, and numbers it.
    pub fn insert(&mut self, mut allocation: Allocation) {
        self.next_id += 1;
        allocation.id = self.next_id;
        self.by_base.insert(allocation.base, allocation);
    }

    /// Removes an allocation.
    pub fn remove(&mut self, base: u64) -> Option<Allocation> {
        self.by_base.remove(&base)
    }

    /// A mutable allocation.
    pub fn at_mut(&mut self, base: u64) -> Option<&mut Allocation> {
        self.by_base.get_mut(&base)
    }
}

/// Rounds up to whole pages; `OUT_OF_MEMORY` for sizes that no card has.
pub fn whole_pages(bytes: u64, page: u64) -> Answer<u64> {
    bytes
        .checked_next_multiple_of(page)
        .ok_or(CuError::OUT_OF_MEMORY)
}
