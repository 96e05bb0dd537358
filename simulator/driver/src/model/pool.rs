//! Memory pools: stream-ordered allocation.
//!
//! The model: a pool takes chunks of 32 MiB (or whole multiples, for a larger request) from its
//! device and hands out parts of them in steps of 512 bytes, first fit. What is freed can be used
//! again at once, since the simulated device is never busy. Chunks with nothing live in them are
//! given back to the device at the next synchronisation, until no more than the release threshold
//! (0 at first) is reserved; at once by `cuMemPoolTrimTo`; and when memory is short.
//!
//! A pool that can be shared has its chunks in a file in memory, of which every chunk gets a part
//! that is never used again. Another process imports the pool, which gives it the file, and then
//! pointer by pointer: each is an alias at an address of its own.

use super::State;
use super::books::Kind;
use super::context::Current;
use super::handles::Handles;
use super::memory::Import;
use super::memory::{Allocation, Backing, whole_pages};
use super::ranges::FreeRanges;
use super::sharing::{Label, Made};
use crate::ffi::{Answer, require};
use crate::files;
use crate::host::{self, Access};
use gpumem_cuda_abi::CuResult;
use std::collections::BTreeMap;
use std::os::fd::{AsRawFd, OwnedFd};

/// Bytes of a chunk.
pub const CHUNK_BYTES: u64 = 32 << 20;
/// Step and alignment of what a pool hands out.
const STEP: u64 = 512;
/// Bytes of a shared pool's file: more than it will ever hand out.
const FILE_BYTES: u64 = 1 << 46;

/// `CUmemPoolPtrExportData`: 64 bytes.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct ExportedPointer {
    magic: u64,
    /// Device and inode of the pool's file.
    file: (u64, u64),
    offset: u64,
    bytes: u64,
    reserved: [u64; 3],
}

const MAGIC: u64 = u64::from_ne_bytes(*b"gpumem\x01p");

/// A block of memory that a pool has taken from its device.
#[derive(Debug)]
struct Chunk {
    ranges: FreeRanges,
    /// Where in the pool's file it lies.
    offset: u64,
}

/// The file of a shared pool.
#[derive(Debug)]
struct PoolFile {
    file: OwnedFd,
    number: (u64, u64),
    /// Where the next chunk goes.
    next: u64,
}

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
    chunks: BTreeMap<u64, Chunk>,
    file: Option<PoolFile>,
    imported: bool,
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
            file: None,
            imported: false,
            destroyed: false,
        }
    }

    fn unused_bytes(&self) -> u64 {
        let chunks = self.chunks.values().map(|chunk| &chunk.ranges);
        let unused = chunks.filter(|ranges| ranges.is_unused());
        unused.map(FreeRanges::size).sum()
    }

    fn take(&mut self, bytes: u64) -> Option<u64> {
        self.chunks
            .iter_mut()
            .find_map(|(base, chunk)| Some(base + chunk.ranges.take(bytes)?))
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
        let pool = self.get(handle)?;
        require(pool.device == device && !pool.imported)?;
        self.current[device] = handle;
        Ok(())
    }

    /// Whether a pool's memory can be shared.
    pub fn is_shareable(&self, handle: usize) -> bool {
        let pool = self.live.get(handle);
        pool.is_some_and(|pool| pool.handle_types != 0)
    }

    /// Bytes that the device's pools hold and nobody uses.
    pub fn unused_bytes(&self, device: usize) -> u64 {
        let on_device = self.on(device);
        on_device.map(|(_, pool)| pool.unused_bytes()).sum()
    }

    /// The device's pools. One that was destroyed keeps what it holds until its last block is freed.
    fn on(&self, device: usize) -> impl Iterator<Item = (usize, &Pool)> {
        let all = self.live.iter();
        all.filter(move |(_, pool)| pool.device == device && !pool.destroyed)
    }

    fn handles_on(&self, device: usize) -> Vec<usize> {
        self.on(device).map(|(handle, _)| handle).collect()
    }
}

impl State {
    /// `cuMemPoolCreate`.
    pub fn create_pool(
        &mut self,
        device: usize,
        max_bytes: u64,
        handle_types: u32,
    ) -> Answer<usize> {
        let mut pool = Pool::new(device, max_bytes, handle_types);
        if handle_types != 0 {
            let index = self.machine.visible.get(device).copied().unwrap_or(0);
            let label = Label::Pool(Made {
                kind: 1,
                location: 1,
                id: i64::from(index),
                usage: 0,
            });
            let file = files::memory_file(&label.to_name(), FILE_BYTES);
            pool.file = Some(PoolFile::of(file.ok_or(CuResult::OUT_OF_MEMORY)?)?);
        }
        Ok(self.pools.live.insert(pool))
    }

    /// `cuMemPoolExportToShareableHandle`: of a pool that was made for it.
    pub fn export_pool(&self, handle: usize) -> Answer<OwnedFd> {
        let pool = self.pools.get(handle)?;
        require(!pool.imported)?;
        let file = pool.file.as_ref().ok_or(CuResult::INVALID_VALUE)?;
        files::hand_out(file.file.as_raw_fd()).ok_or(CuResult::OUT_OF_MEMORY)
    }

    /// `cuMemPoolImportFromShareableHandle`: a pool that nothing can be allocated from.
    pub fn import_pool(&mut self, file: i32) -> Answer<usize> {
        let Label::Pool(made) = Label::of_file(file)? else {
            return Err(CuResult::INVALID_VALUE);
        };
        let location = self.described(made)?.location;
        let device = self.device(location.id)?;
        let file = files::duplicate(file).ok_or(CuResult::INVALID_VALUE)?;
        let mut pool = Pool::new(device, 0, 0);
        pool.file = Some(PoolFile::of(file)?);
        pool.imported = true;
        Ok(self.pools.live.insert(pool))
    }

    /// `cuMemPoolExportPointer`.
    pub fn export_pool_pointer(&self, pointer: u64) -> Answer<ExportedPointer> {
        let found = self.memory.holding(pointer);
        let found = found.ok_or(CuResult::INVALID_VALUE)?;
        let Backing::Pool { pool } = found.backing else {
            return Err(CuResult::INVALID_VALUE);
        };
        let pool = self.pools.live.get(pool).ok_or(CuResult::INVALID_VALUE)?;
        let file = pool.file.as_ref().ok_or(CuResult::INVALID_VALUE)?;
        let chunk = pool.chunks.range(..=found.base).next_back();
        let (start, chunk) = chunk.ok_or(CuResult::INVALID_VALUE)?;
        Ok(ExportedPointer {
            magic: MAGIC,
            file: file.number,
            offset: chunk.offset + (found.base - start),
            bytes: found.bytes,
            reserved: [0; 3],
        })
    }

    /// `cuMemPoolImportPointer`: from the imported pool that the pointer was exported of.
    pub fn import_pool_pointer(&mut self, handle: usize, exported: ExportedPointer) -> Answer<u64> {
        let pool = self.pools.get(handle)?;
        require(pool.imported && exported.magic == MAGIC)?;
        let file = pool.file.as_ref().ok_or(CuResult::INVALID_VALUE)?;
        require(file.number == exported.file)?;
        let end = exported.offset.checked_add(exported.bytes);
        require(end.is_some_and(|end| end <= FILE_BYTES))?;
        let at = Current {
            context: 0,
            device: pool.device,
        };
        let part = (exported.offset, exported.bytes);
        self.map_alias(at, file.file.as_raw_fd(), part, Import::Pool)
    }

    /// `cuMemAllocFromPoolAsync`.
    pub fn allocate_from_pool(&mut self, handle: usize, bytes: u64) -> Answer<u64> {
        require(bytes > 0)?;
        let step = whole_pages(bytes, STEP)?;
        let pool = self.pools.get_mut(handle)?;
        require(!pool.imported)?;
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
            .filter(|(_, chunk)| chunk.ranges.is_unused())
            .map(|(base, chunk)| (*base, chunk.ranges.size()))
            .collect();
        for (base, bytes) in unused.into_iter().rev() {
            if pool.reserved.current <= keep {
                break;
            }
            let chunk = pool.chunks.remove(&base);
            if let (Some(file), Some(chunk)) = (&pool.file, chunk) {
                files::punch(&file.file, chunk.offset, bytes);
            }
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
            chunk.ranges.give(base - start, step);
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
        let pool = self.pools.get_mut(handle)?;
        let mapped = match &mut pool.file {
            Some(file) => file.map(chunk, page),
            None => host::map(chunk, page, Access::ReadWrite).map(|base| (base, 0)),
        };
        let Some((base, offset)) = mapped else {
            self.books.device_mut(device).give_physical(chunk);
            return Err(CuResult::OUT_OF_MEMORY);
        };
        pool.reserved.add(chunk);
        let ranges = FreeRanges::new(chunk);
        pool.chunks.insert(base, Chunk { ranges, offset });
        Ok(())
    }
}

impl PoolFile {
    fn of(file: OwnedFd) -> Answer<Self> {
        let identity = files::identity(file.as_raw_fd());
        let number = identity.ok_or(CuResult::INVALID_VALUE)?.number;
        Ok(Self {
            file,
            number,
            next: 0,
        })
    }

    /// Maps a part of the file that was never used; its address, and where it lies.
    fn map(&mut self, bytes: u64, page: u64) -> Option<(u64, u64)> {
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
