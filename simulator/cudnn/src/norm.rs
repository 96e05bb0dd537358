//! Batch normalization, which requests no workspace and no reserve.
//!
//! NVIDIA's cuDNN 7.6.5 requested memory only for half in NHWC, less than 0.3 MiB.

use crate::handle;
use crate::status::{Done, Status, pointer, status};
use gpumem_sim_client::ffi::{Handle, Out};

fn nothing(handle: Handle, bytes: Out<usize>) -> Status {
    let ask = || -> Done {
        handle::stream(handle)?;
        pointer(bytes.put(0))
    };
    status(ask())
}

/// `cudnnGetBatchNormalizationForwardTrainingExWorkspaceSize`.
#[allow(clippy::too_many_arguments)]
pub fn forward_workspace(
    handle: Handle,
    _mode: u32,
    _operations: u32,
    _x: Handle,
    _z: Handle,
    _y: Handle,
    _scale: Handle,
    _activation: Handle,
    bytes: Out<usize>,
) -> Status {
    nothing(handle, bytes)
}

/// `cudnnGetBatchNormalizationBackwardExWorkspaceSize`.
#[allow(clippy::too_many_arguments)]
pub fn backward_workspace(
    handle: Handle,
    _mode: u32,
    _operations: u32,
    _x: Handle,
    _y: Handle,
    _dy: Handle,
    _dz: Handle,
    _dx: Handle,
    _scale: Handle,
    _activation: Handle,
    bytes: Out<usize>,
) -> Status {
    nothing(handle, bytes)
}

/// `cudnnGetBatchNormalizationTrainingExReserveSpaceSize`.
pub fn reserve(
    handle: Handle,
    _mode: u32,
    _operations: u32,
    _activation: Handle,
    _x: Handle,
    bytes: Out<usize>,
) -> Status {
    nothing(handle, bytes)
}
