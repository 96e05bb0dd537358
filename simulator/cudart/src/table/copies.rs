//! Copies and fills. Synchronous copies on the thread's own stream (`_ptds`) are the same as others
//! here.

use super::{OwnStream, exports};
use crate::copy::{self, Kind};
use crate::{copy_box, copy_rows, fill, symbol};
use gpumem_cuda_abi::{CudaExtent, CudaPitchedPtr};
use gpumem_sim_client::cu;
use gpumem_sim_client::ffi::{Address, Handle, In, Out};

exports! {
    context cudaMemcpy (to: Address, from: Address, bytes: usize, kind: Kind) = copy::linear;
    context cudaMemcpy_ptds (to: Address, from: Address, bytes: usize, kind: Kind) = copy::linear;
    context cudaMemcpyAsync (to: Address, from: Address, bytes: usize, kind: Kind, stream: Handle) = copy::linear_async;
    context cudaMemcpyAsync_ptsz (to: Address, from: Address, bytes: usize, kind: Kind, stream: OwnStream) = copy::linear_async;
    context cudaMemcpyPeer (to: Address, to_device: i32, from: Address, from_device: i32, bytes: usize) = copy::peer;
    context cudaMemcpyPeerAsync (to: Address, to_device: i32, from: Address, from_device: i32, bytes: usize, stream: Handle) = copy::peer_async;
    context cudaMemcpyBatchAsync (to: Address, from: Address, bytes: Address, count: usize, attributes: Address, indices: Address, attribute_count: usize, stream: Handle) = cu::cuMemcpyBatchAsync;
    context cudaMemcpyBatchAsync_ptsz (to: Address, from: Address, bytes: Address, count: usize, attributes: Address, indices: Address, attribute_count: usize, stream: OwnStream) = cu::cuMemcpyBatchAsync;
    context cudaMemcpyToSymbol (symbol: Address, from: Address, bytes: usize, offset: usize, kind: Kind) = copy::to_symbol;
    context cudaMemcpyToSymbol_ptds (symbol: Address, from: Address, bytes: usize, offset: usize, kind: Kind) = copy::to_symbol;
    context cudaMemcpyToSymbolAsync (symbol: Address, from: Address, bytes: usize, offset: usize, kind: Kind, stream: Handle) = copy::to_symbol_async;
    context cudaMemcpyToSymbolAsync_ptsz (symbol: Address, from: Address, bytes: usize, offset: usize, kind: Kind, stream: OwnStream) = copy::to_symbol_async;
    context cudaMemcpyFromSymbol (to: Address, symbol: Address, bytes: usize, offset: usize, kind: Kind) = copy::from_symbol;
    context cudaMemcpyFromSymbol_ptds (to: Address, symbol: Address, bytes: usize, offset: usize, kind: Kind) = copy::from_symbol;
    context cudaMemcpyFromSymbolAsync (to: Address, symbol: Address, bytes: usize, offset: usize, kind: Kind, stream: Handle) = copy::from_symbol_async;
    context cudaMemcpyFromSymbolAsync_ptsz (to: Address, symbol: Address, bytes: usize, offset: usize, kind: Kind, stream: OwnStream) = copy::from_symbol_async;
    context cudaGetSymbolAddress (pointer: Out<Address>, symbol: Address) = symbol::get_address;
    context cudaGetSymbolSize (bytes: Out<usize>, symbol: Address) = symbol::get_size;
    context cudaMemcpy2D (to: Address, to_pitch: usize, from: Address, from_pitch: usize, width: usize, height: usize, kind: Kind) = copy_rows::rows;
    context cudaMemcpy2D_ptds (to: Address, to_pitch: usize, from: Address, from_pitch: usize, width: usize, height: usize, kind: Kind) = copy_rows::rows;
    context cudaMemcpy2DAsync (to: Address, to_pitch: usize, from: Address, from_pitch: usize, width: usize, height: usize, kind: Kind, stream: Handle) = copy_rows::rows_async;
    context cudaMemcpy2DAsync_ptsz (to: Address, to_pitch: usize, from: Address, from_pitch: usize, width: usize, height: usize, kind: Kind, stream: OwnStream) = copy_rows::rows_async;
    context cudaMemcpy2DToArray (to: Handle, x: usize, y: usize, from: Address, pitch: usize, width: usize, height: usize, kind: Kind) = copy_rows::rows_to_array;
    context cudaMemcpy2DToArray_ptds (to: Handle, x: usize, y: usize, from: Address, pitch: usize, width: usize, height: usize, kind: Kind) = copy_rows::rows_to_array;
    context cudaMemcpy2DToArrayAsync (to: Handle, x: usize, y: usize, from: Address, pitch: usize, width: usize, height: usize, kind: Kind, stream: Handle) = copy_rows::rows_to_array_async;
    context cudaMemcpy2DToArrayAsync_ptsz (to: Handle, x: usize, y: usize, from: Address, pitch: usize, width: usize, height: usize, kind: Kind, stream: OwnStream) = copy_rows::rows_to_array_async;
    context cudaMemcpy2DFromArray (to: Address, pitch: usize, from: Handle, x: usize, y: usize, width: usize, height: usize, kind: Kind) = copy_rows::rows_from_array;
    context cudaMemcpy2DFromArray_ptds (to: Address, pitch: usize, from: Handle, x: usize, y: usize, width: usize, height: usize, kind: Kind) = copy_rows::rows_from_array;
    context cudaMemcpy2DFromArrayAsync (to: Address, pitch: usize, from: Handle, x: usize, y: usize, width: usize, height: usize, kind: Kind, stream: Handle) = copy_rows::rows_from_array_async;
    context cudaMemcpy2DFromArrayAsync_ptsz (to: Address, pitch: usize, from: Handle, x: usize, y: usize, width: usize, height: usize, kind: Kind, stream: OwnStream) = copy_rows::rows_from_array_async;
    context cudaMemcpy2DArrayToArray (to: Handle, to_x: usize, to_y: usize, from: Handle, from_x: usize, from_y: usize, width: usize, height: usize, kind: Kind) = copy_rows::array_to_array;
    context cudaMemcpy2DArrayToArray_ptds (to: Handle, to_x: usize, to_y: usize, from: Handle, from_x: usize, from_y: usize, width: usize, height: usize, kind: Kind) = copy_rows::array_to_array;
    context cudaMemcpy3D (parameters: In<copy_box::Parameters>) = copy_box::boxes;
    context cudaMemcpy3D_ptds (parameters: In<copy_box::Parameters>) = copy_box::boxes;
    context cudaMemcpy3DAsync (parameters: In<copy_box::Parameters>, stream: Handle) = copy_box::boxes_async;
    context cudaMemcpy3DAsync_ptsz (parameters: In<copy_box::Parameters>, stream: OwnStream) = copy_box::boxes_async;
    context cudaMemcpy3DPeer (parameters: In<copy_box::PeerParameters>) = copy_box::boxes_peer;
    context cudaMemcpy3DPeer_ptds (parameters: In<copy_box::PeerParameters>) = copy_box::boxes_peer;
    context cudaMemcpy3DPeerAsync (parameters: In<copy_box::PeerParameters>, stream: Handle) = copy_box::boxes_peer_async;
    context cudaMemcpy3DPeerAsync_ptsz (parameters: In<copy_box::PeerParameters>, stream: OwnStream) = copy_box::boxes_peer_async;
    context cudaMemset (pointer: Address, value: i32, bytes: usize) = fill::linear;
    context cudaMemset_ptds (pointer: Address, value: i32, bytes: usize) = fill::linear;
    context cudaMemsetAsync (pointer: Address, value: i32, bytes: usize, stream: Handle) = fill::linear_async;
    context cudaMemsetAsync_ptsz (pointer: Address, value: i32, bytes: usize, stream: OwnStream) = fill::linear_async;
    context cudaMemset2D (pointer: Address, pitch: usize, value: i32, width: usize, height: usize) = fill::rows;
    context cudaMemset2D_ptds (pointer: Address, pitch: usize, value: i32, width: usize, height: usize) = fill::rows;
    context cudaMemset2DAsync (pointer: Address, pitch: usize, value: i32, width: usize, height: usize, stream: Handle) = fill::rows_async;
    context cudaMemset2DAsync_ptsz (pointer: Address, pitch: usize, value: i32, width: usize, height: usize, stream: OwnStream) = fill::rows_async;
    context cudaMemset3D (pitched: CudaPitchedPtr, value: i32, extent: CudaExtent) = fill::cuboid;
    context cudaMemset3D_ptds (pitched: CudaPitchedPtr, value: i32, extent: CudaExtent) = fill::cuboid;
    context cudaMemset3DAsync (pitched: CudaPitchedPtr, value: i32, extent: CudaExtent, stream: Handle) = fill::cuboid_async;
    context cudaMemset3DAsync_ptsz (pitched: CudaPitchedPtr, value: i32, extent: CudaExtent, stream: OwnStream) = fill::cuboid_async;
}
