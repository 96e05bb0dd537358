//! The numbers of streams and pools of a device in events.

use gpumem_capture::{Definition, DeviceOrdinal, PlacementId};
use rustc_hash::FxHashMap;

use super::capture::{CaptureError, Out};
use super::fields::PoolId;

/// The largest number.
const LAST: u8 = 254;

/// The numbers of a device's streams and pools.
pub(super) struct Placements {
    device: DeviceOrdinal,
    numbers: FxHashMap<(u64, PoolId), PlacementId>,
}

impl Placements {
    pub fn new(device: DeviceOrdinal) -> Self {
        Self {
            device,
            numbers: FxHashMap::default(),
        }
    }

    /// The number of a stream in a pool, which is defined if it is new. Returns the unknown number when the numbers
    /// are exhausted.
    pub fn of(
        &mut self,
        stream: u64,
        pool: PoolId,
        out: &mut Out,
    ) -> Result<PlacementId, CaptureError> {
        if (stream, pool) == (0, (0, 0)) {
            return Ok(PlacementId::DEFAULT);
        }
        if let Some(known) = self.numbers.get(&(stream, pool)) {
            return Ok(*known);
        }
        let Some(number) = u8::try_from(self.numbers.len() + 1)
            .ok()
            .filter(|number| *number <= LAST)
        else {
            return Ok(PlacementId::UNKNOWN);
        };
        let id = PlacementId(number);
        out.define(&Definition::Placement {
            id,
            device: self.device,
            stream,
            stream_id: None,
            pool,
        })?;
        self.numbers.insert((stream, pool), id);
        Ok(id)
    }
}
