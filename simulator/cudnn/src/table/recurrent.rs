//! Recurrent networks.

use crate::rnn;
use crate::status::Status;
use gpumem_sim_client::exports;
use gpumem_sim_client::ffi::{Address, Handle, Out};

exports! {
    cudnnGetRNNWeightSpaceSize (handle: Handle, rnn: Handle, bytes: Out<usize>) -> Status = rnn::weight_space;
    cudnnGetRNNWeightParams (handle: Handle, rnn: Handle, place: i32, room: usize, weights: Address, number: i32, matrix: Handle, matrix_address: Out<Address>, bias: Handle, bias_address: Out<Address>) -> Status = rnn::weight_parameters;
    cudnnGetRNNTempSpaceSizes (handle: Handle, rnn: Handle, mode: u32, x: Handle, workspace: Out<usize>, reserve: Out<usize>) -> Status = rnn::temporary;
    cudnnRNNForward (handle: Handle, rnn: Handle, mode: u32, lengths: Address, x: Handle, x_data: Address, y: Handle, y_data: Address, h: Handle, hx: Address, hy: Address, c: Handle, cx: Address, cy: Address, weights: usize, weight_data: Address, workspace: usize, workspace_data: Address, reserve: usize, reserve_data: Address) -> Status = rnn::forward;
    cudnnRNNBackwardData_v8 (handle: Handle, rnn: Handle, lengths: Address, y: Handle, y_data: Address, dy: Address, x: Handle, dx: Address, h: Handle, hx: Address, dhy: Address, dhx: Address, c: Handle, cx: Address, dcy: Address, dcx: Address, weights: usize, weight_data: Address, workspace: usize, workspace_data: Address, reserve: usize, reserve_data: Address) -> Status = rnn::backward_data;
    cudnnRNNBackwardWeights_v8 (handle: Handle, rnn: Handle, add: u32, lengths: Address, x: Handle, x_data: Address, h: Handle, hx: Address, y: Handle, y_data: Address, weights: usize, gradients: Address, workspace: usize, workspace_data: Address, reserve: usize, reserve_data: Address) -> Status = rnn::backward_weights;
}
