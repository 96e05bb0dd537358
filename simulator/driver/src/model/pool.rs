//! Memory pools: stream-ordered allocation.
//!
//! The model: a pool takes chunks of 32 MiB (or multiples of it, for a larger request) from its
//! device and allocates parts of them in steps of 512 bytes, first fit. Freed memory can be reused
//! at once, because the simulated device is never busy. Chunks without live memory are freed at the
//! next synchronisation (also by `cuMemFree` of a pool's memory), as long as at least the release
//! threshold (0 by default) stays reserved. `cuMemPoolTrimTo` and a shortage of memory free them at
//! once.
//!
//! The chunks of a shareable pool are parts of a memory file; a part is never reused. Another
//! process imports the pool, which gives it the file, and then single pointers: each is an alias at
//! a new address.
//!
//! Pools of host memory and of managed memory take nothing from a card: managed memory of pools stays on the host.
//! The books count host memory under the first device, and managed memory under the device that the pool prefers, or
//! that of the stream.

use super::handles::Handles;
use super::kind::Kind;
use super::ranges::FreeRanges;
use crate::ffi::{Answer, CuError, require};
use crate::files;
use crate::host::{self, Access};
use gpumem_cuda_abi::{ALLOCATION_MANAGED, ALLOCATION_PINNED, CuMemLocation, CuMemLocationType};
use std::collections::BTreeMap;
use std::os::fd::{AsRawFd, OwnedFd};

/// Bytes of a chunk.
pub const CHUNK_BYTES: u64 = 32 << 20;
/// Step and alignment of a pool's allocations.
pub(crate) const STEP: u64 = 512;
/// Bytes of a shared pool's file: more than it ever allocates.
pub(crate) const FILE_BYTES: u64 = 1 << 46;

/// `CUmemPoolPtrExportData`: 64 bytes.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct ExportedPointer {
    pub(crate) magic: u64,
    /// Device and inode of the pool's file.
    pub(crate) file: (u64, u64),
    pub(crate) offset: u64,
    pub(crate) bytes: u64,
    pub(crate) reserved: [u64; 3],
}

pub(crate) const MAGIC: u64 = u64::from_ne_bytes(*b"gpumem\x01p");

/// A block of memory that a pool has taken from its device.
#[derive(Debug)]
pub(crate) struct Chunk {
    /// Its number in the pool, the oldest first. Addresses are not used, because they differ from
    /// run to run.
    pub(crate) number: u64,
    pub(crate) ranges: FreeRanges,
    /// Its offset in the pool's file.
    pub(crate) offset: u64,
}

/// The file of a shared pool.
#[derive(Debug)]
pub(crate) struct PoolFile {
    pub(crate) file: OwnedFd,
    pub(crate) number: (u64, u64),
    /// The offset of the next chunk.
    pub(crate) next: u64,
}

/// A figure with its peak.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HighWater {
    /// The current value.
    pub current: u64,
    /// The peak since the last reset.
    pub high: u64,
}

impl HighWater {
    /// Increases the value.
    pub(super) fn add(&mut self, bytes: u64) {
        self.current += bytes;
        self.high = self.high.max(self.current);
    }

    /// Decreases the value.
    pub(super) fn remove(&mut self, bytes: u64) {
        self.current -= bytes;
    }

    /// Resets the peak to the current value.
    pub fn reset(&mut self) {
        self.high = self.current;
    }
}

/// The kind and place of a pool's memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// `CUmemAllocationType`.
    pub allocation: u32,
    /// Its location; the one that managed memory prefers.
    pub location: CuMemLocation,
}

impl Place {
    /// A device's own memory.
    pub fn on(device: usize) -> Self {
        Self {
            allocation: ALLOCATION_PINNED,
            location: CuMemLocation {
                kind: CuMemLocationType::DEVICE,
                id: device as i32,
            },
        }
    }

    /// Whether it is a device's own memory.
    pub fn is_on_card(&self) -> bool {
        self.allocation == ALLOCATION_PINNED && self.location.kind == CuMemLocationType::DEVICE
    }

    /// The kind of its allocations in the books.
    pub fn kind(&self) -> Kind {
        match self.allocation {
            ALLOCATION_MANAGED => Kind::Managed,
            _ if self.location.kind.is_host() => Kind::Host,
            _ => Kind::Async,
        }
    }

    /// The device that it names.
    pub fn device(&self) -> Option<usize> {
        let is_device = self.location.kind == CuMemLocationType::DEVICE;
        is_device.then_some(self.location.id as usize)
    }

    /// As a key: the id of a location without ids is ignored.
    fn key(&self) -> (u32, u32, i32) {
        let kind = self.location.kind;
        let id = match kind {
            CuMemLocationType::HOST | CuMemLocationType::NONE => 0,
            _ => self.location.id,
        };
        (self.allocation, kind.0, id)
    }
}

/// One pool.
#[derive(Debug)]
pub struct Pool {
    /// The kind and place of its memory.
    pub place: Place,
    /// Its device; the first one if its place names none.
    pub device: usize,
    /// Bytes that it keeps reserved when it frees unused chunks.
    pub release_threshold: u64,
    /// The three reuse policies, as the caller set them.
    pub reuse: [i32; 3],
    /// Bytes taken from the device.
    pub reserved: HighWater,
    /// Requested bytes. It includes memory that `cuMemFree` has freed.
    pub used: HighWater,
    /// Most bytes that it may reserve; 0 for no limit.
    pub max_bytes: u64,
    /// Handle types that its memory may be exported as.
    pub handle_types: u32,
    /// Access of other devices, by ordinal.
    pub access: BTreeMap<i32, Access>,
    pub(crate) chunks: BTreeMap<u64, Chunk>,
    pub(crate) file: Option<PoolFile>,
    pub(crate) imported: bool,
    pub(crate) destroyed: bool,
}

impl Pool {
    pub(crate) fn new(place: Place, max_bytes: u64, handle_types: u32) -> Self {
        Self {
            place,
            device: place.device().unwrap_or(0),
            release_threshold: 0,
            reuse: [1; 3],
            reserved: HighWater::default(),
            used: HighWater::default(),
            max_bytes,
            handle_types,
            access: BTreeMap::new(),
            chunks: BTreeMap::new(),
            file: None,
            imported: false,
            destroyed: false,
        }
    }

    pub(crate) fn unused_bytes(&self) -> u64 {
        let chunks = self.chunks.values().map(|chunk| &chunk.ranges);
        let unused = chunks.filter(|ranges| ranges.is_unused());
        unused.map(FreeRanges::size).sum()
    }

    pub(crate) fn take(&mut self, bytes: u64) -> Option<u64> {
        let mut oldest_first: Vec<_> = self.chunks.iter_mut().collect();
        oldest_first.sort_unstable_by_key(|(_, chunk)| chunk.number);
        oldest_first
            .into_iter()
            .find_map(|(base, chunk)| Some(base + chunk.ranges.take(bytes)?))
    }
}

/// Every pool, and the current pool of each device and of each other place.
#[derive(Debug)]
pub struct Pools {
    pub(crate) live: Handles<Pool>,
    pub(crate) default: Vec<usize>,
    pub(crate) current: Vec<usize>,
    /// The default pool and the current one of places that are not a device's own, once they were requested.
    elsewhere: BTreeMap<(u32, u32, i32), (usize, usize)>,
}

impl Pools {
    /// The default pools of this number of devices.
    pub fn new(devices: usize) -> Self {
        let mut live = Handles::new(4);
        let default: Vec<usize> = (0..devices)
            .map(|device| live.insert(Pool::new(Place::on(device), 0, 0)))
            .collect();
        Self {
            current: default.clone(),
            default,
            live,
            elsewhere: BTreeMap::new(),
        }
    }

    /// A live pool.
    pub fn get(&self, handle: usize) -> Answer<&Pool> {
        let pool = self.live.get(handle).filter(|pool| !pool.destroyed);
        pool.ok_or(CuError::INVALID_VALUE)
    }

    /// A mutable live pool.
    pub fn get_mut(&mut self, handle: usize) -> Answer<&mut Pool> {
        let pool = self.live.get_mut(handle).filter(|pool| !pool.destroyed);
        pool.ok_or(CuError::INVALID_VALUE)
    }

    /// The device's default pool.
    pub fn default_of(&self, device: usize) -> usize {
        self.default[device]
    }

    /// The pool that the device's stream-ordered allocations come from.
    pub fn current_of(&self, device: usize) -> usize {
        self.current[device]
    }

    /// The default pool and the current one of a place.
    pub fn of_place(&mut self, place: Place) -> (usize, usize) {
        if let Some(device) = place.device().filter(|_| place.is_on_card()) {
            return (self.default[device], self.current[device]);
        }
        let Self {
            live, elsewhere, ..
        } = self;
        let new = || {
            let made = live.insert(Pool::new(place, 0, 0));
            (made, made)
        };
        *elsewhere.entry(place.key()).or_insert_with(new)
    }

    /// Sets the current pool of a place, which must be the pool's.
    pub fn set_current(&mut self, place: Place, handle: usize) -> Answer {
        let pool = self.get(handle)?;
        require(pool.place.key() == place.key() && !pool.imported)?;
        match place.device().filter(|_| place.is_on_card()) {
            Some(device) => self.current[device] = handle,
            None => {
                let (default, _) = self.of_place(place);
                self.elsewhere.insert(place.key(), (default, handle));
            }
        }
        Ok(())
    }

    /// Whether a pool is the default of its place.
    pub(crate) fn is_default(&self, handle: usize) -> bool {
        let mut elsewhere = self.elsewhere.values();
        self.default.contains(&handle) || elsewhere.any(|(default, _)| *default == handle)
    }

    /// Makes default pools current where this one was.
    pub(crate) fn unset_current(&mut self, handle: usize) {
        for (current, default) in self.current.iter_mut().zip(&self.default) {
            if *current == handle {
                *current = *default;
            }
        }
        for (default, current) in self.elsewhere.values_mut() {
            if *current == handle {
                *current = *default;
            }
        }
    }

    /// Whether a pool's memory can be shared.
    pub fn is_shareable(&self, handle: usize) -> bool {
        let pool = self.live.get(handle);
        pool.is_some_and(|pool| pool.handle_types != 0)
    }

    /// Unused bytes of the device's pools.
    pub fn unused_bytes(&self, device: usize) -> u64 {
        let on_device = self.on(device);
        on_device.map(|(_, pool)| pool.unused_bytes()).sum()
    }

    /// Bytes of the device's destroyed pools, which no call reports.
    pub fn destroyed_bytes(&self, device: usize) -> u64 {
        let all = self.live.iter().map(|(_, pool)| pool);
        let here = all.filter(|pool| pool.device == device && pool.place.is_on_card());
        let destroyed = here.filter(|pool| pool.destroyed);
        destroyed.map(|pool| pool.reserved.current).sum()
    }

    /// The pools of the device's own memory. A destroyed pool keeps its memory until its last block is freed.
    pub(crate) fn on(&self, device: usize) -> impl Iterator<Item = (usize, &Pool)> {
        self.near(device)
            .filter(|(_, pool)| pool.place.is_on_card())
    }

    /// The device's pools, those of managed memory included. Pools on the host are the first device's.
    fn near(&self, device: usize) -> impl Iterator<Item = (usize, &Pool)> {
        let all = self.live.iter();
        all.filter(move |(_, pool)| pool.device == device && !pool.destroyed)
    }

    pub(crate) fn handles_on(&self, device: usize) -> Vec<usize> {
        self.on(device).map(|(handle, _)| handle).collect()
    }

    pub(crate) fn handles_near(&self, device: usize) -> Vec<usize> {
        self.near(device).map(|(handle, _)| handle).collect()
    }
}

impl PoolFile {
    pub(crate) fn of(file: OwnedFd) -> Answer<Self> {
        let identity = files::identity(file.as_raw_fd());
        let number = identity.ok_or(CuError::INVALID_VALUE)?.number;
        Ok(Self {
            file,
            number,
            next: 0,
        })
    }

    /// Maps an unused part of the file. Returns its address and its offset.
    pub(crate) fn map(&mut self, bytes: u64, page: u64) -> Option<(u64, u64)> {
        let offset = self.next;
        let next = offset
            .checked_add(bytes)
            .filter(|next| *next <= FILE_BYTES)?;
        let base = host::map(bytes, page, Access::None)?;
        if !host::map_file_over(base, bytes, self.file.as_raw_fd(), offset) {
            host::unmap(base, bytes);
            return None;
        }
        host::protect(base, bytes, Access::ReadWrite);
        self.next = next;
        Some((base, offset))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exported_pointers_have_cudas_size() {
        assert_eq!(size_of::<ExportedPointer>(), 64);
    }
}
