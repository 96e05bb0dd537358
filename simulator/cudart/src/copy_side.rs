//! The kind of memory at each end of a copy: `CUmemorytype`.

use crate::copy::{INVALID_DIRECTION, Kind};
use gpumem_sim_client::ffi::Answer;

/// Host memory.
pub const HOST: u32 = 1;
/// Device memory.
pub const DEVICE: u32 = 2;
/// An array.
pub const ARRAY: u32 = 3;
/// Detected from the address.
pub const UNIFIED: u32 = 4;

/// The memory types of a copy of this kind: source, target.
pub fn ends(kind: Kind) -> Answer<(u32, u32)> {
    match kind {
        Kind::HOST_TO_HOST => Ok((HOST, HOST)),
        Kind::HOST_TO_DEVICE => Ok((HOST, DEVICE)),
        Kind::DEVICE_TO_HOST => Ok((DEVICE, HOST)),
        Kind::DEVICE_TO_DEVICE => Ok((DEVICE, DEVICE)),
        Kind::DEFAULT => Ok((UNIFIED, UNIFIED)),
        _ => Err(INVALID_DIRECTION),
    }
}
