//! Operations on the state: memory pools.

use crate::ffi::{Answer, CuError, require};
use crate::files;
use crate::host::{self, Access};
use crate::model::State;
use crate::model::context::Current;
use crate::model::kind::Kind;
use crate::model::memory::Import;
use crate::model::memory::{Allocation, Backing, whole_pages};
use crate::model::pool::*;
use crate::model::ranges::FreeRanges;
use crate::model::sharing::{Label, Made};
use std::os::fd::{AsRawFd, OwnedFd};

impl State {
    /// `cuMemPoolCreate`.
    pub fn create_pool(
        &mut self,
        place: Place,
        max_bytes: u64,
        handle_types: u32,
    ) -> Answer<usize> {
        let mut pool = Pool::new(place, max_bytes, handle_types);
        if handle_types != 0 {
            let label = Label::Pool(Made {
                kind: place.allocation,
                location: place.location.kind.0,
                id: self.shared_id(place.location),
                usage: 0,
            });
            let file = files::memory_file(&label.to_name(), FILE_BYTES);
            pool.file = Some(PoolFile::of(file.ok_or(CuError::OUT_OF_MEMORY)?)?);
        }
        Ok(self.pools.live.insert(pool))
    }

    /// `cuMemPoolExportToShareableHandle`: for a pool that was created for it.
    pub fn export_pool(&self, handle: usize) -> Answer<OwnedFd> {
        let pool = self.pools.get(handle)?;
        require(!pool.imported)?;
        let file = pool.file.as_ref().ok_or(CuError::INVALID_VALUE)?;
        files::hand_out(file.file.as_raw_fd()).ok_or(CuError::OUT_OF_MEMORY)
    }

    /// `cuMemPoolImportFromShareableHandle`: a pool from which nothing can be allocated.
    pub fn import_pool(&mut self, file: i32) -> Answer<usize> {
        let Label::Pool(made) = Label::of_file(file)? else {
            return Err(CuError::INVALID_VALUE);
        };
        let place = Place {
            allocation: made.kind,
            location: self.described(made)?.location,
        };
        let file = files::duplicate(file).ok_or(CuError::INVALID_VALUE)?;
        let mut pool = Pool::new(place, 0, 0);
        pool.file = Some(PoolFile::of(file)?);
        pool.imported = true;
        Ok(self.pools.live.insert(pool))
    }

    /// `cuMemPoolExportPointer`.
    pub fn export_pool_pointer(&self, pointer: u64) -> Answer<ExportedPointer> {
        let found = self.memory.holding(pointer);
        let found = found.ok_or(CuError::INVALID_VALUE)?;
        let Backing::Pool { pool } = found.backing else {
            return Err(CuError::INVALID_VALUE);
        };
        let pool = self.pools.live.get(pool).ok_or(CuError::INVALID_VALUE)?;
        let file = pool.file.as_ref().ok_or(CuError::INVALID_VALUE)?;
        let chunk = pool.chunks.range(..=found.base).next_back();
        let (start, chunk) = chunk.ok_or(CuError::INVALID_VALUE)?;
        Ok(ExportedPointer {
            magic: MAGIC,
            file: file.number,
            offset: chunk.offset + (found.base - start),
            bytes: found.bytes,
            reserved: [0; 3],
        })
    }

    /// `cuMemPoolImportPointer`: the pool must be the import of the pointer's pool.
    pub fn import_pool_pointer(&mut self, handle: usize, exported: ExportedPointer) -> Answer<u64> {
        let pool = self.pools.get(handle)?;
        require(pool.imported && exported.magic == MAGIC)?;
        let file = pool.file.as_ref().ok_or(CuError::INVALID_VALUE)?;
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

    /// `cuMemAllocFromPoolAsync`. `at`: the device of managed memory whose pool prefers none.
    pub fn allocate_from_pool(&mut self, handle: usize, bytes: u64, at: usize) -> Answer<u64> {
        require(bytes > 0)?;
        let step = whole_pages(bytes, STEP)?;
        let pool = self.pools.get_mut(handle)?;
        require(!pool.imported)?;
        let kind = pool.place.kind();
        let device = match kind {
            Kind::Managed => pool.place.device().unwrap_or(at),
            _ => pool.device,
        };
        let base = match pool.take(step) {
            Some(base) => base,
            None => {
                self.grow_pool(handle, step)?;
                let pool = self.pools.get_mut(handle)?;
                pool.take(step).ok_or(CuError::OUT_OF_MEMORY)?
            }
        };
        self.pools.get_mut(handle)?.used.add(bytes);
        self.books.device_mut(device).allocated(kind, bytes);
        self.memory.insert(Allocation {
            base,
            bytes,
            kind,
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
        let pool = self.pools.current_of(current.device);
        self.allocate_from_pool(pool, bytes, current.device)
    }

    /// `cuMemPoolDestroy`: the pool is hidden, and freed with its last block.
    pub fn destroy_pool(&mut self, handle: usize) -> Answer {
        self.pools.get(handle)?;
        require(!self.pools.is_default(handle))?;
        self.pools.unset_current(handle);
        self.pools.get_mut(handle)?.destroyed = true;
        self.bury_pool(handle);
        Ok(())
    }

    /// `cuMemPoolTrimTo`: frees unused chunks as long as at least `keep` bytes stay reserved.
    pub fn trim_pool(&mut self, handle: usize, keep: u64) {
        let Some(pool) = self.pools.live.get_mut(handle) else {
            return;
        };
        let mut unused: Vec<(u64, u64, u64)> = pool
            .chunks
            .iter()
            .filter(|(_, chunk)| chunk.ranges.is_unused())
            .map(|(base, chunk)| (chunk.number, *base, chunk.ranges.size()))
            .collect();
        unused.sort_unstable();
        for (_, base, bytes) in unused.into_iter().rev() {
            if pool.reserved.current - bytes < keep {
                continue;
            }
            let chunk = pool.chunks.remove(&base);
            if let (Some(file), Some(chunk)) = (&pool.file, chunk) {
                files::punch(&file.file, chunk.offset, bytes);
            }
            pool.reserved.remove(bytes);
            if pool.place.is_on_card() {
                self.books.device_mut(pool.device).give_physical(bytes);
            }
            host::unmap(base, bytes);
        }
    }

    /// Frees all unused memory of a device's pools.
    pub fn trim_pools_of(&mut self, device: usize) {
        for handle in self.pools.handles_on(device) {
            self.trim_pool(handle, 0);
        }
    }

    /// The effect of a synchronisation: pools shrink to their release thresholds.
    pub fn synchronised(&mut self, device: usize) {
        for handle in self.pools.handles_near(device) {
            if let Some(pool) = self.pools.live.get(handle) {
                let keep = pool.release_threshold;
                self.trim_pool(handle, keep);
            }
        }
    }

    /// The additional effects of `cuMemFree` on a pool's memory, compared with `cuMemFreeAsync`.
    /// The pool's `used` does not change, and the pool shrinks because the call waits for the
    /// device.
    pub(crate) fn freed_beside_pool(&mut self, handle: usize, bytes: u64) {
        let Ok(pool) = self.pools.get_mut(handle) else {
            return;
        };
        pool.used.current += bytes;
        let keep = pool.release_threshold;
        self.trim_pool(handle, keep);
    }

    pub(crate) fn give_to_pool(&mut self, handle: usize, base: u64, bytes: u64) {
        let step = bytes.next_multiple_of(STEP);
        let Some(pool) = self.pools.live.get_mut(handle) else {
            return;
        };
        pool.used.remove(bytes);
        if let Some((start, chunk)) = pool.chunks.range_mut(..=base).next_back() {
            chunk.ranges.give(base - start, step);
        }
        self.bury_pool(handle);
    }

    pub(crate) fn bury_pool(&mut self, handle: usize) {
        let pool = self.pools.live.get(handle);
        if pool.is_some_and(|pool| pool.destroyed && pool.unused_bytes() == pool.reserved.current) {
            self.trim_pool(handle, 0);
            self.pools.live.remove(handle);
        }
    }

    pub(crate) fn grow_pool(&mut self, handle: usize, bytes: u64) -> Answer {
        let page = self.machine.page_bytes;
        let pool = self.pools.get(handle)?;
        let (device, reserved, max) = (pool.device, pool.reserved.current, pool.max_bytes);
        let is_on_card = pool.place.is_on_card();
        let least = whole_pages(bytes, page)?;
        let fits_pool = |chunk: u64| max == 0 || reserved + chunk <= max;
        let wanted = whole_pages(bytes, CHUNK_BYTES.max(page))?;
        let mut take = |bytes: u64| match is_on_card {
            true => self.take_pages(device, bytes),
            false => Ok(()),
        };
        let chunk = if fits_pool(wanted) && take(wanted).is_ok() {
            wanted
        } else if fits_pool(least) {
            take(least)?;
            least
        } else {
            return Err(CuError::OUT_OF_MEMORY);
        };
        let pool = self.pools.get_mut(handle)?;
        let mapped = match &mut pool.file {
            Some(file) => file.map(chunk, page),
            None => host::map(chunk, page, Access::ReadWrite).map(|base| (base, 0)),
        };
        let Some((base, offset)) = mapped else {
            if is_on_card {
                self.books.device_mut(device).give_physical(chunk);
            }
            return Err(CuError::OUT_OF_MEMORY);
        };
        pool.reserved.add(chunk);
        let ranges = FreeRanges::new(chunk);
        let newest = pool.chunks.values().map(|chunk| chunk.number).max();
        let number = newest.map_or(0, |newest| newest + 1);
        let chunk = Chunk {
            number,
            ranges,
            offset,
        };
        pool.chunks.insert(base, chunk);
        Ok(())
    }
}
