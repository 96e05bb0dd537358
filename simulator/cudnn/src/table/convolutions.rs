//! Convolutions of the older API.

use crate::convolution;
use crate::status::Status;
use gpumem_sim_client::exports;
use gpumem_sim_client::ffi::{Address, Handle, Out};

exports! {
    cudnnGetConvolutionForwardAlgorithm_v7 (handle: Handle, x: Handle, w: Handle, convolution: Handle, y: Handle, wanted: i32, told: Out<i32>, to: Address) -> Status = convolution::get_forward;
    cudnnGetConvolutionBackwardDataAlgorithm_v7 (handle: Handle, w: Handle, dy: Handle, convolution: Handle, dx: Handle, wanted: i32, told: Out<i32>, to: Address) -> Status = convolution::get_data;
    cudnnGetConvolutionBackwardFilterAlgorithm_v7 (handle: Handle, x: Handle, dy: Handle, convolution: Handle, dw: Handle, wanted: i32, told: Out<i32>, to: Address) -> Status = convolution::get_filter;
    cudnnFindConvolutionForwardAlgorithmEx (handle: Handle, x: Handle, x_data: Address, w: Handle, w_data: Address, convolution: Handle, y: Handle, y_data: Address, wanted: i32, told: Out<i32>, to: Address, workspace: Address, room: usize) -> Status = convolution::find_forward;
    cudnnFindConvolutionBackwardDataAlgorithmEx (handle: Handle, w: Handle, w_data: Address, dy: Handle, dy_data: Address, convolution: Handle, dx: Handle, dx_data: Address, wanted: i32, told: Out<i32>, to: Address, workspace: Address, room: usize) -> Status = convolution::find_data;
    cudnnFindConvolutionBackwardFilterAlgorithmEx (handle: Handle, x: Handle, x_data: Address, dy: Handle, dy_data: Address, convolution: Handle, dw: Handle, dw_data: Address, wanted: i32, told: Out<i32>, to: Address, workspace: Address, room: usize) -> Status = convolution::find_filter;
    cudnnGetConvolutionForwardWorkspaceSize (handle: Handle, x: Handle, w: Handle, convolution: Handle, y: Handle, algorithm: u32, bytes: Out<usize>) -> Status = convolution::size_forward;
    cudnnGetConvolutionBackwardDataWorkspaceSize (handle: Handle, w: Handle, dy: Handle, convolution: Handle, dx: Handle, algorithm: u32, bytes: Out<usize>) -> Status = convolution::size_data;
    cudnnGetConvolutionBackwardFilterWorkspaceSize (handle: Handle, x: Handle, dy: Handle, convolution: Handle, dw: Handle, algorithm: u32, bytes: Out<usize>) -> Status = convolution::size_filter;
}
