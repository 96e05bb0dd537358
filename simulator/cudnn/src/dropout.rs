//! Dropout. Its states are those of the random number generators of all resident threads.

use crate::handle;
use crate::launch::launch;
use crate::objects::Objects;
use crate::status::{Done, Status, pointer, require, status};
use gpumem_sim_client::cu;
use gpumem_sim_client::ffi::{Address, Handle, Out};

/// Probabilities by handle.
pub static DROPOUTS: Objects<f32> = Objects::new();

/// States of one multiprocessor: 1,024 of 48 bytes. NVIDIA's cuDNN 7.6.5 requests 6,488,064 bytes
/// on a card with 132.
const MULTIPROCESSOR_BYTES: usize = 49_152;

/// `CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT`.
const MULTIPROCESSOR_COUNT: u32 = 16;

fn bytes() -> Done<usize> {
    let (mut device, mut count) = (0, 0);
    let asked = cu::cuCtxGetDevice(Out::to(&mut device))
        .and_then(|()| cu::cuDeviceGetAttribute(Out::to(&mut count), MULTIPROCESSOR_COUNT, device));
    asked.map_err(|_| Status::EXECUTION_FAILED_CUDA_DRIVER)?;
    Ok(usize::try_from(count).unwrap_or(0) * MULTIPROCESSOR_BYTES)
}

/// `cudnnDropoutGetStatesSize`.
pub fn states_size(handle: Handle, place: Out<usize>) -> Status {
    let size = || -> Done {
        handle::stream(handle)?;
        pointer(place.put(bytes()?))
    };
    status(size())
}

fn remember(descriptor: Handle, probability: f32, states: Address, room: usize) -> Done {
    require((0.0..=1.0).contains(&probability), Status::BAD_PARAM)?;
    let enough = states == 0 || room >= bytes()?;
    require(enough, Status::BAD_PARAM_SIZE_INSUFFICIENT)?;
    DROPOUTS.set(descriptor, probability)
}

/// `cudnnSetDropoutDescriptor`: the states are filled by a kernel.
pub fn set(
    descriptor: Handle,
    handle: Handle,
    probability: f32,
    states: Address,
    room: usize,
    _seed: u64,
) -> Status {
    let set = || -> Done {
        handle::stream(handle)?;
        remember(descriptor, probability, states, room)?;
        if states != 0 {
            launch(handle)?;
        }
        Ok(())
    };
    status(set())
}

/// `cudnnRestoreDropoutDescriptor`: the states do not change.
pub fn restore(
    descriptor: Handle,
    handle: Handle,
    probability: f32,
    states: Address,
    room: usize,
    _seed: u64,
) -> Status {
    let restore = || -> Done {
        handle::stream(handle)?;
        remember(descriptor, probability, states, room)
    };
    status(restore())
}
