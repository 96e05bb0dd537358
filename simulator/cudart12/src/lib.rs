//! The simulated `libcudart.so.12`: the runtime of CUDA 13 under CUDA 12's name, with the functions
//! that PyTorch uses only with CUDA 12.
//!
//! # Not suitable for
//! Programs that use a structure that changed from CUDA 12 to 13 and is not defined here.

mod properties;

use gpumem_cuda_abi::CudaError;
use gpumem_sim_client::ffi::{Address, Handle, Out};
// Exports the functions of this library.
use simcudart::cuda12;

gpumem_sim_client::belongs_to_cuda12!();

/// CUDA 12's function of this name: without edge data.
#[unsafe(no_mangle)]
pub extern "C" fn cudaStreamGetCaptureInfo_v2(
    stream: Handle,
    status: Out<u32>,
    id: Out<u64>,
    graph: Out<Handle>,
    nodes: Out<Address>,
    count: Out<usize>,
) -> CudaError {
    cuda12::capture_info_v3(stream, status, id, graph, nodes, Out::NOWHERE, count)
}

/// CUDA 12's function of this name: CUDA 13's `cudaStreamGetCaptureInfo`.
#[unsafe(no_mangle)]
pub extern "C" fn cudaStreamGetCaptureInfo_v3(
    stream: Handle,
    status: Out<u32>,
    id: Out<u64>,
    graph: Out<Handle>,
    nodes: Out<Address>,
    edges: Out<Address>,
    count: Out<usize>,
) -> CudaError {
    cuda12::capture_info_v3(stream, status, id, graph, nodes, edges, count)
}
