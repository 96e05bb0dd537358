//! Sizes of buffers, except those of RNNs and convolutions.

use crate::status::Status;
use crate::{ctc, dropout, norm};
use gpumem_sim_client::exports;
use gpumem_sim_client::ffi::{Address, Handle, Out};

exports! {
    cudnnGetBatchNormalizationForwardTrainingExWorkspaceSize (handle: Handle, mode: u32, operations: u32, x: Handle, z: Handle, y: Handle, scale: Handle, activation: Handle, bytes: Out<usize>) -> Status = norm::forward_workspace;
    cudnnGetBatchNormalizationBackwardExWorkspaceSize (handle: Handle, mode: u32, operations: u32, x: Handle, y: Handle, dy: Handle, dz: Handle, dx: Handle, scale: Handle, activation: Handle, bytes: Out<usize>) -> Status = norm::backward_workspace;
    cudnnGetBatchNormalizationTrainingExReserveSpaceSize (handle: Handle, mode: u32, operations: u32, activation: Handle, x: Handle, bytes: Out<usize>) -> Status = norm::reserve;
    cudnnGetCTCLossWorkspaceSize (handle: Handle, probabilities: Handle, gradients: Handle, labels: Address, lengths: Address, inputs: Address, algorithm: u32, loss: Handle, bytes: Out<usize>) -> Status = ctc::workspace_of_host_labels;
    cudnnGetCTCLossWorkspaceSize_v8 (handle: Handle, algorithm: u32, loss: Handle, probabilities: Handle, gradients: Handle, bytes: Out<usize>) -> Status = ctc::workspace;
    cudnnDropoutGetStatesSize (handle: Handle, bytes: Out<usize>) -> Status = dropout::states_size;
}
