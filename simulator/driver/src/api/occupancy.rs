//! Occupancy: plausible figures from the device's limits only.

use crate::ffi::{Answer, Handle, Out, require};
use crate::model::state::{machine, state};

/// Blocks that fit on a multiprocessor.
const BLOCKS: i32 = 32;
/// Shared memory of a block without an opt-in.
const SHARED_BYTES: usize = 48 << 10;

/// Multiprocessors of the current context's device, or of the first device without a context; and
/// the threads that each can run.
fn multiprocessors() -> (i32, i32) {
    let current = state().ok().and_then(|state| state.bound().ok());
    let device = machine().visible_device(current.map_or(0, |at| at.device));
    device.map_or((0, 0), |device| {
        let threads = device.threads_per_multiprocessor;
        (device.multiprocessors as i32, threads as i32)
    })
}

/// `cuOccupancyMaxActiveBlocksPerMultiprocessor[WithFlags]`.
pub extern "C" fn max_active_blocks(
    blocks: Out<i32>,
    _function: Handle,
    block_size: i32,
) -> Answer {
    require(block_size > 0)?;
    let whole_warps = block_size.saturating_add(31) / 32 * 32;
    let fitting = if block_size > 1024 {
        0
    } else {
        multiprocessors().1 / whole_warps
    };
    blocks.put(fitting.min(BLOCKS))
}

/// `cuOccupancyMaxPotentialBlockSize[WithFlags]`.
pub extern "C" fn max_potential_block_size(
    grid: Out<i32>,
    block: Out<i32>,
    _function: Handle,
    _shared_of_block: Handle,
    _shared_bytes: usize,
    limit: i32,
) -> Answer {
    let size = if limit > 0 { limit.min(1024) } else { 1024 };
    let (number, threads) = multiprocessors();
    grid.put(number * (threads / size).min(BLOCKS))?;
    block.put(size)
}

/// `cuOccupancyAvailableDynamicSMemPerBlock`.
pub extern "C" fn available_shared(
    bytes: Out<usize>,
    _function: Handle,
    blocks: i32,
    block_size: i32,
) -> Answer {
    require(blocks > 0 && block_size > 0)?;
    bytes.put(SHARED_BYTES)
}

/// `cuOccupancyMaxActiveClusters`.
pub extern "C" fn max_active_clusters(clusters: Out<i32>) -> Answer {
    clusters.put(16)
}

/// `cuOccupancyMaxPotentialClusterSize`.
pub extern "C" fn max_cluster_size(size: Out<i32>) -> Answer {
    size.put(8)
}

/// `cuTensorMapEncode*`: an empty descriptor of 128 bytes, CUDA's size, for kernels that never run.
pub extern "C" fn encode_tensor_map(map: Out<[u64; 16]>) -> Answer {
    map.put([0; 16])
}
