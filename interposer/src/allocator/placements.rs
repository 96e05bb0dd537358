//! Numbers of placements, the sources of blocks: a stream's part of a pool.

use core::hash::BuildHasherDefault;
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use dashmap::DashMap;
use gpumem_capture::{DefKind, DeviceOrdinal, PlacementId, Writer};
use rustc_hash::FxHasher;

use crate::thread;

/// The number of devices with separate placements: as many as have counters.
const DEVICES: usize = 63;
/// The maximum number of placements of a device, numbered from 1.
const NUMBERS: u32 = 254;

/// A pool's id in the allocator.
pub(super) type Pool = (u64, u64);

/// A placement of a device.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct Place {
    device: u8,
    stream: u64,
    pool: Pool,
}

/// The placements behind the numbers in the capture.
pub(super) struct Placements {
    /// The placements of the last blocks.
    last: [Last; DEVICES],
    /// How many numbers of each device are assigned.
    given: [AtomicU32; DEVICES],
    numbers: DashMap<Place, u8, BuildHasherDefault<FxHasher>>,
}

/// The placement of a device's last block. The allocator's lock of the device is held at each access.
#[derive(Default)]
struct Last {
    stream: AtomicU64,
    pool: (AtomicU64, AtomicU64),
    /// 0 if there is no last block.
    number: AtomicU64,
}

impl Default for Placements {
    fn default() -> Self {
        Self {
            last: core::array::from_fn(|_| Last::default()),
            given: core::array::from_fn(|_| AtomicU32::new(0)),
            numbers: DashMap::default(),
        }
    }
}

impl Placements {
    /// The placement of a reported block. `id` is called to get PyTorch's number of the stream if the
    /// placement is new.
    #[inline(always)]
    pub(super) fn of_block(
        &self,
        writer: &'static Writer,
        device: DeviceOrdinal,
        stream: u64,
        id: impl FnOnce() -> Option<u64>,
        pool: Pool,
    ) -> PlacementId {
        let of = |word: &AtomicU64| word.load(Ordering::Relaxed);
        let Some(last) = self.last.get(usize::from(device.0)) else {
            return PlacementId::UNKNOWN;
        };
        let number = of(&last.number);
        let is_it = of(&last.stream) == stream && (of(&last.pool.0), of(&last.pool.1)) == pool;
        match number != 0 && is_it {
            true => PlacementId(number as u8),
            false => self.another(last, writer, device, stream, id, pool),
        }
    }

    #[cold]
    #[inline(never)]
    fn another(
        &self,
        last: &Last,
        writer: &'static Writer,
        device: DeviceOrdinal,
        stream: u64,
        id: impl FnOnce() -> Option<u64>,
        pool: Pool,
    ) -> PlacementId {
        let placement = thread::caught(|| self.of(writer, device, stream, id, pool));
        let placement = placement.unwrap_or(PlacementId::UNKNOWN);
        if placement != PlacementId::UNKNOWN {
            last.stream.store(stream, Ordering::Relaxed);
            last.pool.0.store(pool.0, Ordering::Relaxed);
            last.pool.1.store(pool.1, Ordering::Relaxed);
            last.number.store(placement.0.into(), Ordering::Relaxed);
        }
        placement
    }

    /// The number of a placement, which is defined if it has none.
    pub(super) fn of(
        &self,
        writer: &'static Writer,
        device: DeviceOrdinal,
        stream: u64,
        id: impl FnOnce() -> Option<u64>,
        pool: Pool,
    ) -> PlacementId {
        if (stream, pool) == (0, (0, 0)) {
            return PlacementId::DEFAULT;
        }
        let place = Place {
            device: device.0,
            stream,
            pool,
        };
        if let Some(known) = self.numbers.get(&place) {
            return PlacementId(*known);
        }
        let Some(given) = self.given.get(usize::from(device.0)) else {
            return PlacementId::UNKNOWN;
        };
        let before = given.fetch_add(1, Ordering::Relaxed);
        let number = (before % NUMBERS + 1) as u8;
        if before >= NUMBERS {
            // The oldest use of the number.
            let is_its = |of: &Place, known: &u8| of.device == device.0 && *known == number;
            self.numbers.retain(|of, known| !is_its(of, known));
        }
        let id = id().unwrap_or(u64::MAX);
        let words = [stream, id, pool.0, pool.1].map(u64::to_le_bytes);
        let parts: [&[u8]; 2] = [&[number, device.0], words.as_flattened()];
        match writer.definition(DefKind::PLACEMENT, &parts) {
            Ok(_) => {
                self.numbers.insert(place, number);
                PlacementId(number)
            }
            Err(_) => PlacementId::UNKNOWN,
        }
    }
}
