//! Virtual memory management: physical handles, reserved addresses, mappings between them.
//!
//! A handle is a file in memory. Its bytes count on the card from `cuMemCreate` until its last
//! reference and its last mapping (including arrays and multicast objects that it is bound to) are
//! gone. If another process still has it then, the card keeps the bytes for that process, and the
//! books here count them as physical only.

use super::kind::Kind;
use crate::ffi::{Answer, CuError, require};
use gpumem_cuda_abi::CuMemAllocationProp;
use std::collections::BTreeMap;
use std::os::fd::OwnedFd;

/// Sizes and alignments are multiples of this.
pub const GRANULARITY: u64 = 2 << 20;

/// The number of NUMA nodes of the simulated host.
const NUMA_NODES: i32 = 2;

/// Whether the host has that NUMA node.
pub fn is_numa_node(id: i32) -> bool {
    (0..NUMA_NODES).contains(&id)
}

/// Physical memory that `cuMemCreate` created, or that was imported from another process.
#[derive(Debug)]
pub struct Physical {
    pub(crate) file: OwnedFd,
    /// Its size in bytes.
    pub bytes: u64,
    /// The properties that it was created with.
    pub properties: CuMemAllocationProp,
    /// Its device; 0 for host memory.
    pub device: usize,
    /// Device or host memory.
    pub kind: Kind,
    pub(crate) imported: bool,
    pub(crate) references: u32,
    pub(crate) mappings: u32,
}

// SAFETY: the only pointer inside is the caller's Win32 meta data, which is returned and never
// dereferenced.
unsafe impl Send for Physical {}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Mapping {
    pub(crate) bytes: u64,
    pub(crate) handle: u64,
    pub(crate) offset: u64,
}

/// Virtual memory, by address and by handle.
#[derive(Debug, Default)]
pub struct Vmm {
    pub(crate) handles: BTreeMap<u64, Physical>,
    pub(crate) reservations: BTreeMap<u64, u64>,
    pub(crate) mappings: BTreeMap<u64, Mapping>,
    pub(crate) next_handle: u64,
}

impl Vmm {
    /// A handle to which its owner still has a reference.
    pub fn get(&self, handle: u64) -> Answer<&Physical> {
        let held = self.handles.get(&handle).filter(|p| p.references > 0);
        held.ok_or(CuError::INVALID_VALUE)
    }

    /// The memory of a handle, even if only mappings hold it.
    pub fn peek(&self, handle: u64) -> Answer<&Physical> {
        self.handles.get(&handle).ok_or(CuError::INVALID_VALUE)
    }

    /// The handle mapped at `address`.
    pub fn mapped_at(&self, address: u64) -> Answer<u64> {
        let below = self.mappings.range(..=address).next_back();
        let (_, mapping) = below
            .filter(|(base, mapping)| address - **base < mapping.bytes)
            .ok_or(CuError::INVALID_VALUE)?;
        Ok(mapping.handle)
    }

    /// The complete mappings that form exactly this range, in order.
    pub(crate) fn exactly(&self, base: u64, bytes: u64) -> Answer<Vec<u64>> {
        let end = base.checked_add(bytes).ok_or(CuError::INVALID_VALUE)?;
        let mut found = Vec::new();
        let mut at = base;
        while at < end {
            let mapping = self.mappings.get(&at).ok_or(CuError::INVALID_VALUE)?;
            found.push(at);
            at += mapping.bytes;
        }
        require(at == end && !found.is_empty())?;
        Ok(found)
    }

    /// The mappings in a reserved range, all of them complete.
    pub(crate) fn within(&self, base: u64, bytes: u64) -> Answer<Vec<u64>> {
        require(bytes > 0 && (base | bytes).is_multiple_of(GRANULARITY))?;
        require(self.reserved(base, bytes))?;
        let end = base + bytes;
        let lies_across = |at: u64| {
            let below = self.mappings.range(..at).next_back();
            below.is_some_and(|(start, mapping)| start + mapping.bytes > at)
        };
        require(!lies_across(base) && !lies_across(end))?;
        Ok(self.mappings.range(base..end).map(|(at, _)| *at).collect())
    }

    pub(crate) fn reserved(&self, base: u64, bytes: u64) -> bool {
        let below = self.reservations.range(..=base).next_back();
        below.is_some_and(|(start, length)| match base.checked_add(bytes) {
            Some(end) => end <= start + length,
            None => false,
        })
    }

    pub(crate) fn mapped_within(&self, base: u64, end: u64) -> bool {
        let below = self.mappings.range(..end).next_back();
        below.is_some_and(|(start, mapping)| start + mapping.bytes > base)
    }
}
