//! Forward and backward.

use super::data;
use super::descriptor::get;
use super::sizes::needs;
use crate::handle;
use crate::launch::launch;
use crate::status::{Done, Status, require, status};
use gpumem_sim_client::ffi::{Address, Handle};

/// Launches if the buffers are at least as large as the requested sizes.
fn run(handle: Handle, rnn: Handle, mode: u32, x: Handle, given: [usize; 2]) -> Done {
    handle::stream(handle)?;
    let needed = needs(&get(rnn)?, mode, &data::get(x)?);
    let enough = given
        .iter()
        .zip(needed)
        .all(|(given, needed)| *given >= needed);
    require(enough, Status::BAD_PARAM_SIZE_INSUFFICIENT)?;
    launch(handle)
}

/// `cudnnRNNForward`.
#[allow(clippy::too_many_arguments)]
pub fn forward(
    handle: Handle,
    rnn: Handle,
    mode: u32,
    _lengths: Address,
    x: Handle,
    _x_data: Address,
    _y: Handle,
    _y_data: Address,
    _h: Handle,
    _hx: Address,
    _hy: Address,
    _c: Handle,
    _cx: Address,
    _cy: Address,
    _weights: usize,
    _weight_data: Address,
    workspace: usize,
    _workspace_data: Address,
    reserve: usize,
    _reserve_data: Address,
) -> Status {
    status(run(handle, rnn, mode, x, [workspace, reserve]))
}

/// `cudnnRNNBackwardData_v8`.
#[allow(clippy::too_many_arguments)]
pub fn backward_data(
    handle: Handle,
    rnn: Handle,
    _lengths: Address,
    _y: Handle,
    _y_data: Address,
    _dy: Address,
    x: Handle,
    _dx: Address,
    _h: Handle,
    _hx: Address,
    _dhy: Address,
    _dhx: Address,
    _c: Handle,
    _cx: Address,
    _dcy: Address,
    _dcx: Address,
    _weights: usize,
    _weight_data: Address,
    workspace: usize,
    _workspace_data: Address,
    reserve: usize,
    _reserve_data: Address,
) -> Status {
    status(run(handle, rnn, 1, x, [workspace, reserve]))
}

/// `cudnnRNNBackwardWeights_v8`.
#[allow(clippy::too_many_arguments)]
pub fn backward_weights(
    handle: Handle,
    rnn: Handle,
    _add: u32,
    _lengths: Address,
    x: Handle,
    _x_data: Address,
    _h: Handle,
    _hx: Address,
    _y: Handle,
    _y_data: Address,
    _weights: usize,
    _gradients: Address,
    workspace: usize,
    _workspace_data: Address,
    reserve: usize,
    _reserve_data: Address,
) -> Status {
    status(run(handle, rnn, 1, x, [workspace, reserve]))
}
