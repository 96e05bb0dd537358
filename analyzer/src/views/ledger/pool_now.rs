//! PyTorch's pool while a capture is read.

use gpumem_capture::{DeviceOrdinal, Level};

use super::parts::{Parts, Whole};
use super::pool::Pool;
use crate::replay::Replay;

/// The current pool of a device in `replay`; `None` without a pool.
pub(in crate::views) fn pool_now(replay: &Replay, device: DeviceOrdinal) -> Option<Pool> {
    let has = |level| replay.levels.contains_key(&(device, level));
    let whole = Whole {
        tensors: has(Level::TENSOR),
        physical: has(Level::PHYSICAL),
        main: None,
    };
    Parts::at(replay, replay, device, &whole).pool
}
