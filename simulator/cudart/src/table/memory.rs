//! Memory: allocation, pools, pointers, sharing.

use super::{OwnStream, exports};
use crate::{cuda12, memory, pointer, pool};
use gpumem_cuda_abi::{
    CuIpcMemHandle, CuMemAccessDesc, CuMemLocation, CuMemPoolProps, CudaExtent, CudaPitchedPtr,
};
use gpumem_sim_client::cu;
use gpumem_sim_client::ffi::{Address, Handle, In, Out};

exports! {
    context cudaMalloc (pointer: Out<Address>, bytes: usize) = memory::malloc;
    context cudaFree (pointer: Address) = memory::free;
    context cudaMallocManaged (pointer: Out<Address>, bytes: usize, flags: u32) = memory::malloc_managed;
    context cudaMallocPitch (pointer: Out<Address>, pitch: Out<usize>, width: usize, height: usize) = memory::malloc_pitch;
    context cudaMalloc3D (pitched: Out<CudaPitchedPtr>, extent: CudaExtent) = memory::malloc_3d;
    context cudaMallocHost (pointer: Out<Address>, bytes: usize) = memory::malloc_host;
    context cudaHostAlloc (pointer: Out<Address>, bytes: usize, flags: u32) = memory::host_alloc;
    context cudaFreeHost (pointer: Address) = memory::free_host;
    context cudaHostRegister (pointer: Address, bytes: usize, flags: u32) = cu::cuMemHostRegister;
    context cudaHostUnregister (pointer: Address) = cu::cuMemHostUnregister;
    context cudaHostGetDevicePointer (device: Out<Address>, host: Address, flags: u32) = cu::cuMemHostGetDevicePointer;
    context cudaHostGetFlags (flags: Out<u32>, host: Address) = cu::cuMemHostGetFlags;
    context cudaMemGetInfo (free: Out<usize>, total: Out<usize>) = cu::cuMemGetInfo;
    context cudaPointerGetAttributes (attributes: Out<pointer::Attributes>, pointer: Address) = pointer::get_attributes;
    context cudaMallocAsync (pointer: Out<Address>, bytes: usize, stream: Handle) = cu::cuMemAllocAsync;
    context cudaMallocAsync_ptsz (pointer: Out<Address>, bytes: usize, stream: Handle) = cu::cuMemAllocAsync_ptsz;
    context cudaMallocFromPoolAsync (pointer: Out<Address>, bytes: usize, pool: Handle, stream: Handle) = cu::cuMemAllocFromPoolAsync;
    context cudaMallocFromPoolAsync_ptsz (pointer: Out<Address>, bytes: usize, pool: Handle, stream: Handle) = cu::cuMemAllocFromPoolAsync_ptsz;
    context cudaFreeAsync (pointer: Address, stream: Handle) = cu::cuMemFreeAsync;
    context cudaFreeAsync_ptsz (pointer: Address, stream: Handle) = cu::cuMemFreeAsync_ptsz;
    context cudaMemPoolCreate (pool: Out<Handle>, properties: In<CuMemPoolProps>) = cu::cuMemPoolCreate;
    context cudaMemPoolDestroy (pool: Handle) = cu::cuMemPoolDestroy;
    context cudaMemPoolTrimTo (pool: Handle, keep: usize) = cu::cuMemPoolTrimTo;
    context cudaMemPoolSetAttribute (pool: Handle, attribute: u32, value: Address) = cu::cuMemPoolSetAttribute;
    context cudaMemPoolGetAttribute (pool: Handle, attribute: u32, value: Address) = cu::cuMemPoolGetAttribute;
    context cudaMemPoolSetAccess (pool: Handle, list: In<CuMemAccessDesc>, count: usize) = cu::cuMemPoolSetAccess;
    context cudaMemPoolGetAccess (flags: Out<u32>, pool: Handle, location: In<CuMemLocation>) = cu::cuMemPoolGetAccess;
    context cudaMemPoolExportToShareableHandle (handle: Address, pool: Handle, kind: u32, flags: u32) = pool::export;
    context cudaMemPoolImportFromShareableHandle (pool: Out<Handle>, handle: Address, kind: u32, flags: u32) = pool::import;
    context cudaMemPoolExportPointer (data: Address, pointer: Address) = cu::cuMemPoolExportPointer;
    context cudaMemPoolImportPointer (pointer: Out<Address>, pool: Handle, data: Address) = cu::cuMemPoolImportPointer;
    context cudaMemGetDefaultMemPool (pool: Out<Handle>, location: In<CuMemLocation>, kind: u32) = cu::cuMemGetDefaultMemPool;
    context cudaMemGetMemPool (pool: Out<Handle>, location: In<CuMemLocation>, kind: u32) = cu::cuMemGetMemPool;
    context cudaMemSetMemPool (location: In<CuMemLocation>, kind: u32, pool: Handle) = cu::cuMemSetMemPool;
    context cudaMemAdvise (pointer: Address, bytes: usize, advice: u32, location: CuMemLocation) = cuda12::advise;
    context cudaMemPrefetchAsync (pointer: Address, bytes: usize, location: CuMemLocation, flags: Handle, stream: Handle) = cuda12::prefetch;
    context cudaMemPrefetchAsync_ptsz (pointer: Address, bytes: usize, location: CuMemLocation, flags: Handle, stream: OwnStream) = cuda12::prefetch_per_thread;
    context cudaMemPrefetchBatchAsync (pointers: Address, sizes: Address, count: usize, places: Address, firsts: Address, given: usize, flags: u64, stream: Handle) = cu::cuMemPrefetchBatchAsync;
    context cudaMemPrefetchBatchAsync_ptsz (pointers: Address, sizes: Address, count: usize, places: Address, firsts: Address, given: usize, flags: u64, stream: OwnStream) = cu::cuMemPrefetchBatchAsync;
    context cudaMemDiscardAndPrefetchBatchAsync (pointers: Address, sizes: Address, count: usize, places: Address, firsts: Address, given: usize, flags: u64, stream: Handle) = cu::cuMemDiscardAndPrefetchBatchAsync;
    context cudaMemDiscardAndPrefetchBatchAsync_ptsz (pointers: Address, sizes: Address, count: usize, places: Address, firsts: Address, given: usize, flags: u64, stream: OwnStream) = cu::cuMemDiscardAndPrefetchBatchAsync;
    context cudaMemDiscardBatchAsync (pointers: Address, sizes: Address, count: usize, flags: u64, stream: Handle) = cu::cuMemDiscardBatchAsync;
    context cudaMemDiscardBatchAsync_ptsz (pointers: Address, sizes: Address, count: usize, flags: u64, stream: OwnStream) = cu::cuMemDiscardBatchAsync;
    context cudaMemRangeGetAttribute (value: Address, value_bytes: usize, attribute: u32, pointer: Address, bytes: usize) = cu::cuMemRangeGetAttribute;
    context cudaMemRangeGetAttributes (values: Address, value_bytes: Address, attributes: Address, count: usize, pointer: Address, bytes: usize) = cu::cuMemRangeGetAttributes;
    context cudaIpcGetMemHandle (handle: Out<CuIpcMemHandle>, pointer: Address) = cu::cuIpcGetMemHandle;
    context cudaIpcOpenMemHandle (pointer: Out<Address>, handle: CuIpcMemHandle, flags: u32) = cu::cuIpcOpenMemHandle;
    context cudaIpcCloseMemHandle (pointer: Address) = cu::cuIpcCloseMemHandle;
    context cudaIpcGetEventHandle (handle: Out<CuIpcMemHandle>, event: Handle) = cu::cuIpcGetEventHandle;
    context cudaIpcOpenEventHandle (event: Out<Handle>, handle: CuIpcMemHandle) = cu::cuIpcOpenEventHandle;
}
