//! Memory pools: stream-ordered allocation.
//!
//! The model: a pool takes chunks of 32 MiB (or whole multiples, for a larger request) from its
//! device and hands out parts of them in steps of 512 bytes, first fit. What is freed can be used
//! again at once, since the simulated device is never busy. Chunks with nothing live in them are
//! given back to the device at the next synchronisation, until no more than the release threshold
//! (0 at first) is reserved; at once by `cuMemPoolTrimTo`; and when memory is short.

use super::State;
use super::books::Kind;
use super::context::Current;
use super::handles::Handles;
use super::memory::{Allocation, Backing, whole_pages};
use super::ranges::FreeRanges;
use crate::ffi::{Answer, require};
use crate::host::{self, Access};
use gpumem_cuda_abi::CuResult;
use std::collections::BTreeMap;

/// Bytes of a chunk.
pub const CHUNK_BYTES: u64 = 32 << 20;
/// Step and alignment of what a pool hands out.
const STEP: u64 = 512;

/// A figure with its high-water mark.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HighWater {
    /// Now.
    pub current: u64,
    /// At most, since the mark was last reset.
    pub high: u64,
}

impl HighWater {
    /// More.
    pub(super) fn add(&mut self, bytes: u64) {
        self.current += bytes;
        self.high = self.high.max(self.current);
    }

    /// Less.
    pub(super) fn remove(&mut self, bytes: u64) {
        self.current -= bytes;
    }

    /// Sets the mark back to now.
    pub fn reset(&mut self) {
        self.high = self.current;
    }
}

/// One pool.
#[derive(Debug)]
pub struct Pool {
    /// Its device.
    pub device: usize,
    /// Bytes that it keeps when it could give them back.
    pub release_threshold: u64,
    /// The three reuse policies, as the caller set them.
    pub reuse: [i32; 3],
    /// Bytes taken from the device.
    pub reserved: HighWater,
    /// Bytes handed out.
    pub used: HighWater,
    /// Most bytes that it may reserve; 0 for no limit.
    pub max_bytes: u64,
    /// Handle types that its memory may be exported as.
    pub handle_types: u32,
    /// Access of other devices, by ordinal.
    pub access: BTreeMap<i32, Access>,
    chunks: BTreeMap<u64, FreeRanges>,
    destroyed: bool,
}

impl Pool {
    fn new(device: usize, max_bytes: u64, handle_types: u32) -> Self {
        Self {
            device,
            release_threshold: 0,
            reuse: [1; 3],
            reserved: HighWater::default(),
            used: HighWater::default(),
            max_bytes,
            handle_types,
            access: BTreeMap::new(),
            chunks: BTreeMap::new(),
            destroyed: false,
        }
    }

    fn unused_bytes(&self) -> u64 {
        let unused = self.chunks.values().filter(|chunk| chunk.is_unused());
        unused.map(FreeRanges::size).sum()
    }

    fn take(&mut self, bytes: u64) -> Option<u64> {
        self.chunks
            .iter_mut()
            .find_map(|(base, chunk)| Some(base + chunk.take(bytes)?))
    }
}

/// Every pool, and which one each device uses.
#[derive(Debug)]
pub struct Pools {
    live: Handles<Pool>,
    default: Vec<usize>,
    current: Vec<usize>,
}

impl Pools {
    /// The default pools of so many devices.
    pub fn new(devices: usize) -> Self {
        let mut live = Handles::new(4);
        let default: Vec<usize> = (0..devices)
            .map(|device| live.insert(Pool::new(device, 0, 0)))
            .collect();
        Self {
            current: default.clone(),
            default,
            live,
        }
    }

    /// A live pool.
    pub fn get(&self, handle: usize) -> Answer<&Pool> {
        let pool = self.live.get(handle).filter(|pool| !pool.destroyed);
        pool.ok_or(CuResult::INVALID_VALUE)
    }

    /// A live pool, to change.
    pub fn get_mut(&mut self, handle: usize) -> Answer<&mut Pool> {
        let pool = self.live.get_mut(handle).filter(|pool| !pool.destroyed);
        pool.ok_or(CuResult::INVALID_VALUE)
    }

    /// The device's default pool.
    pub fn default_of(&self, device: usize) -> usize {
        self.default[device]
    }

    /// The pool that the device's stream-ordered allocations come from.
    pub fn current_of(&self, device: usize) -> usize {
        self.current[device]
    }

    /// Changes that pool. It must lie on the device.
    pub fn set_current(&mut self, device: usize, handle: usize) -> Answer {
        require(self.get(handle)?.device == device)?;
        self.current[device] = handle;
        Ok(())
    }

    /// A new pool.
    pub fn create(&mut self, device: usize, max_bytes: u64, handle_types: u32) -> usize {
        self.live.insert(Pool::new(device, max_bytes, handle_types))
    }

    /// Bytes that the device's pools hold and nobody uses.
    pub fn unused_bytes(&self, device: usize) -> u64 {
        let of_device = self.live.iter().filter(|(_, pool)| pool.device == device);
        of_device.map(|(_, pool)| pool.unused_bytes()).sum()
    }

    fn handles_on(&self, device: usize) -> Vec<usize> {
        let of_device = self.live.iter().filter(|(_, pool)| pool.device == device);
        of_device.map(|(handle, _)| handle).collect()
    }
}

impl State {
    /// `cuMemAllocFromPoolAsync`.
    pub fn allocate_from_pool(&mut self, handle: usize, bytes: u64) -> Answer<u64> {
        require(bytes > 0)?;
        let step = whole_pages(bytes, STEP)?;
        let pool = self.pools.get_mut(handle)?;
        let device = pool.device;
        let base = match pool.take(step) {
            Some(base) => base,
            None => {
                self.grow_pool(handle, step)?;
                let pool = self.pools.get_mut(handle)?;
                pool.take(step).ok_or(CuResult::OUT_OF_MEMORY)?
            }
        };
        self.pools.get_mut(handle)?.used.add(step);
        self.books.device_mut(device).allocated(Kind::Async, bytes);
        self.memory.insert(Allocation {
            base,
            bytes,
            kind: Kind::Async,
            context: 0,
            device,
            flags: 0,
            id: 0,
            backing: Backing::Pool { pool: handle },
            access: Access::ReadWrite,
        });
        Ok(base)
    }

    /// `cuMemAllocAsync`.
    pub fn allocate_async(&mut self, current: Current, bytes: u64) -> Answer<u64> {
        self.allocate_from_pool(self.pools.current_of(current.device), bytes)
    }

    /// `cuMemPoolDestroy`: the pool lives on, unseen, while any of its memory does.
    pub fn destroy_pool(&mut self, handle: usize) -> Answer {
        let device = self.pools.get(handle)?.device;
        let default = self.pools.default_of(device);
        require(handle != default)?;
        if self.pools.current_of(device) == handle {
            self.pools.current[device] = default;
        }
        self.pools.get_mut(handle)?.destroyed = true;
        self.bury_pool(handle);
        Ok(())
    }

    /// `cuMemPoolTrimTo`: gives unused chunks back while more than `keep` bytes are reserved.
    pub fn trim_pool(&mut self, handle: usize, keep: u64) {
        let Some(pool) = self.pools.live.get_mut(handle) else {
            return;
        };
        let unused: Vec<(u64, u64)> = pool
            .chunks
            .iter()
            .filter(|(_, chunk)| chunk.is_unused())
            .map(|(base, chunk)| (*base, chunk.size()))
            .collect();
        for (base, bytes) in unused.into_iter().rev() {
            if pool.reserved.current <= keep {
                break;
            }
            pool.chunks.remove(&base);
            pool.reserved.remove(bytes);
            self.books.device_mut(pool.device).give_physical(bytes);
            host::unmap(base, bytes);
        }
    }

    /// Gives back all that the pools of a device hold unused.
    pub fn trim_pools_of(&mut self, device: usize) {
        for handle in self.pools.handles_on(device) {
            self.trim_pool(handle, 0);
        }
    }

    /// What a synchronisation does: pools shrink to their release thresholds.
    pub fn synchronised(&mut self, device: usize) {
        for handle in self.pools.handles_on(device) {
            if let Some(pool) = self.pools.live.get(handle) {
                let keep = pool.release_threshold;
                self.trim_pool(handle, keep);
            }
        }
    }

    pub(super) fn give_to_pool(&mut self, handle: usize, base: u64, bytes: u64) {
        let step = bytes.next_multiple_of(STEP);
        let Some(pool) = self.pools.live.get_mut(handle) else {
            return;
        };
        pool.used.remove(step);
        if let Some((start, chunk)) = pool.chunks.range_mut(..=base).next_back() {
            chunk.give(base - start, step);
        }
        self.bury_pool(handle);
    }

    fn bury_pool(&mut self, handle: usize) {
        let pool = self.pools.live.get(handle);
        if pool.is_some_and(|pool| pool.destroyed && pool.used.current == 0) {
            self.trim_pool(handle, 0);
            self.pools.live.remove(handle);
        }
    }

    fn grow_pool(&mut self, handle: usize, bytes: u64) -> Answer {
        let page = self.machine.page_bytes;
        let pool = self.pools.get(handle)?;
        let (device, reserved, max) = (pool.device, pool.reserved.current, pool.max_bytes);
        let least = whole_pages(bytes, page)?;
        let fits_pool = |chunk: u64| max == 0 || reserved + chunk <= max;
        let wanted = whole_pages(bytes, CHUNK_BYTES.max(page))?;
        let chunk = if fits_pool(wanted) && self.take_pages(device, wanted).is_ok() {
            wanted
        } else if fits_pool(least) {
            self.take_pages(device, least)?;
            least
        } else {
            return Err(CuResult::OUT_OF_MEMORY);
        };
        let Some(base) = host::map(chunk, page, Access::ReadWrite) else {
            self.books.device_mut(device).give_physical(chunk);
            return Err(CuResult::OUT_OF_MEMORY);
        };
        let pool = self.pools.get_mut(handle)?;
        pool.reserved.add(chunk);
        pool.chunks.insert(base, FreeRanges::new(chunk));
        Ok(())
    }
}
