//! Determines the pool from which an allocation is requested.
//!
//! During a pool's use, the allocator calls the pool's filter with the stream of each allocation: the first filter that
//! returns true selects its pool. So each filter is wrapped ([`super::filters`]), and the last result counts. Before
//! 2.3 a pool is used by a stream, and there is no filter.
//!
//! The allocator's trace includes the pool of each block since 2.8; before that, this is the only source.

use core::hash::BuildHasherDefault;
use core::sync::atomic::{AtomicU64, Ordering};

use dashmap::DashMap;
use gpumem_capture::DeviceOrdinal;
use rustc_hash::FxHasher;

use super::placements::Pool;

const DEVICES: usize = 63;

/// The pools in use.
pub(super) struct Routes {
    /// The last results of a device's filters. The allocator's lock of the device is held at each call of a filter, and
    /// while an allocation is reported.
    said: [(AtomicU64, AtomicU64); DEVICES],
    /// Pools that are used by a device's streams, as many as there are concurrent graph captures.
    by_stream: DashMap<(u8, u64), Pool, BuildHasherDefault<FxHasher>>,
    streams: AtomicU64,
}

impl Default for Routes {
    fn default() -> Self {
        Self {
            said: core::array::from_fn(|_| <(AtomicU64, AtomicU64)>::default()),
            by_stream: DashMap::default(),
            streams: AtomicU64::new(0),
        }
    }
}

impl Routes {
    /// The pool of an allocation on this stream that is being reported, or that failed.
    pub(super) fn pool(&self, device: DeviceOrdinal, stream: u64) -> Pool {
        if self.streams.load(Ordering::Acquire) != 0
            && let Some(pool) = self.by_stream.get(&(device.0, stream))
        {
            return *pool;
        }
        let said = self.said.get(usize::from(device.0));
        said.map_or((0, 0), |(first, second)| {
            (
                first.load(Ordering::Relaxed),
                second.load(Ordering::Relaxed),
            )
        })
    }

    /// Records that a stream begins to use a pool.
    pub(super) fn begin_stream(&self, device: DeviceOrdinal, stream: u64, pool: Pool) {
        if self.by_stream.insert((device.0, stream), pool).is_none() {
            self.streams.fetch_add(1, Ordering::AcqRel);
        }
    }

    /// Records the end of the use; returns the pool.
    pub(super) fn end_stream(&self, device: DeviceOrdinal, stream: u64) -> Option<Pool> {
        let (_, pool) = self.by_stream.remove(&(device.0, stream))?;
        self.streams.fetch_sub(1, Ordering::AcqRel);
        Some(pool)
    }

    pub(super) fn say(&self, device: DeviceOrdinal, pool: Pool) {
        if let Some((first, second)) = self.said.get(usize::from(device.0)) {
            first.store(pool.0, Ordering::Relaxed);
            second.store(pool.1, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DEVICE: DeviceOrdinal = DeviceOrdinal(1);

    #[test]
    fn what_a_filter_said_last_counts() {
        let routes = Routes::default();
        assert_eq!(routes.pool(DEVICE, 0), (0, 0));
        routes.say(DEVICE, (0, 7));
        assert_eq!(routes.pool(DEVICE, 5), (0, 7));
        assert_eq!(routes.pool(DeviceOrdinal(0), 5), (0, 0));
        routes.say(DEVICE, (0, 0));
        assert_eq!(routes.pool(DEVICE, 5), (0, 0));
    }

    #[test]
    fn a_stream_has_its_pool_and_others_have_none() {
        let routes = Routes::default();
        routes.begin_stream(DEVICE, 5, (3, 0));
        routes.begin_stream(DEVICE, 6, (4, 0));
        assert_eq!(routes.pool(DEVICE, 5), (3, 0));
        assert_eq!(routes.pool(DEVICE, 7), (0, 0));
        assert_eq!(routes.pool(DeviceOrdinal(0), 5), (0, 0));
        assert_eq!(routes.end_stream(DEVICE, 5), Some((3, 0)));
        assert_eq!(routes.end_stream(DEVICE, 5), None);
        assert_eq!(routes.pool(DEVICE, 5), (0, 0));
        assert_eq!(routes.pool(DEVICE, 6), (4, 0));
    }
}
