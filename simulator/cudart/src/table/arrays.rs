//! Arrays, and memory of other interfaces.

use super::exports;
use crate::array::{self, Channels};
use gpumem_cuda_abi::CudaExtent;
use gpumem_sim_client::cu;
use gpumem_sim_client::ffi::{Address, Handle, In, Out};

exports! {
    context cudaMallocArray (array: Out<Handle>, channels: In<Channels>, width: usize, height: usize, flags: u32) = array::malloc;
    context cudaMalloc3DArray (array: Out<Handle>, channels: In<Channels>, extent: CudaExtent, flags: u32) = array::malloc_3d;
    context cudaMallocMipmappedArray (array: Out<Handle>, channels: In<Channels>, extent: CudaExtent, levels: u32, flags: u32) = array::malloc_mipmapped;
    context cudaFreeArray (array: Handle) = array::free;
    context cudaFreeMipmappedArray (array: Handle) = array::free_mipmapped;
    context cudaGetMipmappedArrayLevel (array: Out<Handle>, mipmapped: Handle, level: u32) = cu::cuMipmappedArrayGetLevel;
    context cudaArrayGetInfo (channels: Out<Channels>, extent: Out<CudaExtent>, flags: Out<u32>, array: Handle) = array::get_info;
    context cudaGetChannelDesc (channels: Out<Channels>, array: Handle) = array::get_channels;
    context cudaArrayGetPlane (plane: Out<Handle>, array: Handle, index: u32) = cu::cuArrayGetPlane;
    context cudaImportExternalMemory (memory: Out<Handle>, descriptor: Address) = cu::cuImportExternalMemory;
    context cudaExternalMemoryGetMappedBuffer (pointer: Out<Address>, memory: Handle, descriptor: Address) = cu::cuExternalMemoryGetMappedBuffer;
    context cudaExternalMemoryGetMappedMipmappedArray (mipmapped: Out<Handle>, memory: Handle, descriptor: In<array::External>) = array::map_external;
    context cudaDestroyExternalMemory (memory: Handle) = cu::cuDestroyExternalMemory;
}
