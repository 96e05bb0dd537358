//! Calls of a device's allocator, inferred from a trace.
//!
//! A snapshot does not record when the program began to use a private pool and when it stopped. The start is assumed
//! at the first of several allocations from the pool, and the end before the next one from another pool. Pools of
//! CUDA graphs are assumed to be in use while a stream is captured; the allocator frees no segments meanwhile.

use gpumem_capture::{AllocatorCall, DeviceOrdinal, PlacementId};
use rustc_hash::FxHashMap;

use super::capture::CaptureError;
use super::fields::PoolId;
use super::given_back::Call;
use super::memory::{At, Memory, With};
use super::placements::Placements;

const DEFAULT: PoolId = (0, 0);

/// Whether a pool belongs to CUDA graphs; otherwise it is a `MemPool` of the program.
fn is_of_graphs(pool: PoolId) -> bool {
    pool.0 != 0
}

/// The calls so far.
pub(super) struct Calls {
    placements: Placements,
    /// The pool that allocations currently come from.
    pool: PoolId,
    /// How often the use of each private pool began.
    begun: FxHashMap<PoolId, u64>,
}

impl Calls {
    pub fn new(device: DeviceOrdinal) -> Self {
        Self {
            placements: Placements::new(device),
            pool: DEFAULT,
            begun: FxHashMap::default(),
        }
    }

    /// How many private pools there were.
    pub fn pools(&self) -> u64 {
        self.begun.len() as u64
    }

    /// The placement of a stream in a pool.
    pub fn placement(
        &mut self,
        stream: Option<u64>,
        pool: Option<PoolId>,
        with: &mut With<'_, '_>,
    ) -> Result<PlacementId, CaptureError> {
        let pool = pool.unwrap_or(DEFAULT);
        let of = |stream| self.placements.of(stream, pool, with.out);
        stream.map_or(Ok(PlacementId::UNKNOWN), of)
    }

    /// Subsequent allocations come from this pool.
    pub fn enter(
        &mut self,
        pool: Option<PoolId>,
        at: At,
        memory: &Memory,
        with: &mut With<'_, '_>,
    ) -> Result<(), CaptureError> {
        let pool = pool.unwrap_or(DEFAULT);
        if pool == self.pool {
            return Ok(());
        }
        self.leave(at, memory, with)?;
        if pool != DEFAULT {
            self.pool = pool;
            *self.begun.entry(pool).or_default() += 1;
            self.of_pool(AllocatorCall::POOL_BEGIN, pool, at, memory, with)?;
            if is_of_graphs(pool) {
                self.of_pool(AllocatorCall::CAPTURE_BEGIN, pool, at, memory, with)?;
            }
        }
        Ok(())
    }

    /// A block of this pool is freed. If this is not the current pool, the current one is no longer in use.
    pub fn freed(
        &mut self,
        pool: Option<PoolId>,
        at: At,
        memory: &Memory,
        with: &mut With<'_, '_>,
    ) -> Result<(), CaptureError> {
        match pool.unwrap_or(DEFAULT) == self.pool {
            true => Ok(()),
            false => self.leave(at, memory, with),
        }
    }

    fn leave(
        &mut self,
        at: At,
        memory: &Memory,
        with: &mut With<'_, '_>,
    ) -> Result<(), CaptureError> {
        let pool = core::mem::take(&mut self.pool);
        if pool == DEFAULT {
            return Ok(());
        }
        if is_of_graphs(pool) {
            self.of_pool(AllocatorCall::CAPTURE_END, pool, at, memory, with)?;
        }
        self.of_pool(AllocatorCall::POOL_END, pool, at, memory, with)
    }

    fn of_pool(
        &mut self,
        call: AllocatorCall,
        pool: PoolId,
        at: At,
        memory: &Memory,
        with: &mut With<'_, '_>,
    ) -> Result<(), CaptureError> {
        let placement = self.placements.of(0, pool, with.out)?;
        memory.call(call, 0, at.from(placement), with)
    }

    /// Segments were freed for this reason.
    pub fn given_back(
        &mut self,
        call: Call,
        at: At,
        memory: &Memory,
        with: &mut With<'_, '_>,
    ) -> Result<(), CaptureError> {
        match call {
            Call::EmptyCache(pool) => {
                self.of_pool(AllocatorCall::EMPTY_CACHE, pool, at, memory, with)
            }
            Call::ReleasePool(pool) => {
                if self.pool == pool {
                    self.leave(at, memory, with)?;
                }
                // Each use that began added a user.
                let times = self.begun.get(&pool).copied().unwrap_or(0);
                for _ in 0..times {
                    self.of_pool(AllocatorCall::POOL_RELEASE, pool, at, memory, with)?;
                }
                Ok(())
            }
        }
    }

    /// A freed block was used on a stream, which delays its release.
    pub fn used_on(
        &mut self,
        stream: u64,
        address: u64,
        at: At,
        memory: &Memory,
        with: &mut With<'_, '_>,
    ) -> Result<(), CaptureError> {
        let placement = self.placements.of(stream, DEFAULT, with.out)?;
        let call = AllocatorCall::RECORD_STREAM;
        memory.call(call, address, at.from(placement), with)
    }
}
