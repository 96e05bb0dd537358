//! Memory: allocation, pools, copies, fills, arrays, sharing.

use super::functions;
use crate::ffi::{Address, Handle, In, Out};
use gpumem_cuda_abi::{
    CuArray3dDescriptor, CuArrayDescriptor, CuIpcMemHandle, CuMemAccessDesc, CuMemLocation,
    CuMemPoolProps,
};

/// One side of `CUDA_MEMCPY2D`: 56 bytes.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct Side2d {
    /// Offset in a row, in bytes.
    pub x_bytes: usize,
    /// First row.
    pub y: usize,
    /// `CUmemorytype`: 1 host, 2 device, 3 array, 4 to be looked up.
    pub kind: u32,
    /// The address, if it is the host's.
    pub host: Address,
    /// The address, if it is a device's or to be looked up.
    pub device: Address,
    /// The array, if it is one.
    pub array: Handle,
    /// Bytes from row to row.
    pub pitch: usize,
}

/// `CUDA_MEMCPY2D`: 128 bytes.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct Memcpy2d {
    /// Where from.
    pub from: Side2d,
    /// Where to.
    pub to: Side2d,
    /// Bytes of a row.
    pub width_bytes: usize,
    /// Rows.
    pub height: usize,
}

/// One side of `CUDA_MEMCPY3D` and `CUDA_MEMCPY3D_PEER`: 88 bytes.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct Side3d {
    /// Offset in a row, in bytes.
    pub x_bytes: usize,
    /// First row.
    pub y: usize,
    /// First slice.
    pub z: usize,
    /// Level of detail; 0.
    pub level: usize,
    /// As in [`Side2d::kind`].
    pub kind: u32,
    /// The address, if it is the host's.
    pub host: Address,
    /// The address, if it is a device's or to be looked up.
    pub device: Address,
    /// The array, if it is one.
    pub array: Handle,
    /// The context, between peers; else reserved.
    pub context: Handle,
    /// Bytes from row to row.
    pub pitch: usize,
    /// Rows from slice to slice.
    pub height: usize,
}

/// `CUDA_MEMCPY3D` and `CUDA_MEMCPY3D_PEER`: 200 bytes.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct Memcpy3d {
    /// Where from.
    pub from: Side3d,
    /// Where to.
    pub to: Side3d,
    /// Bytes of a row.
    pub width_bytes: usize,
    /// Rows.
    pub height: usize,
    /// Slices.
    pub depth: usize,
}

/// `CUDA_EXTERNAL_MEMORY_MIPMAPPED_ARRAY_DESC`: 120 bytes.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct ExternalArray {
    /// Where it starts.
    pub offset: u64,
    /// What it is.
    pub shape: CuArray3dDescriptor,
    /// How many levels it has.
    pub levels: u32,
    /// 0.
    pub reserved: [u32; 16],
}

functions! { super::MEMORY;
    cuMemGetInfo 3020 (free: Out<usize>, total: Out<usize>);
    cuMemAllocManaged 6000 (pointer: Out<Address>, bytes: usize, flags: u32);
    cuMemAlloc 3020 (pointer: Out<Address>, bytes: usize);
    cuMemAllocPitch 3020 (pointer: Out<Address>, pitch: Out<usize>, width_bytes: usize, height: usize, element_bytes: u32);
    cuMemFree 3020 (pointer: Address);
    cuMemFreeHost 2000 (pointer: Address);
    cuMemHostAlloc 2020 (pointer: Out<Address>, bytes: usize, flags: u32);
    cuMemHostGetDevicePointer 3020 (device: Out<Address>, host: Address, flags: u32);
    cuMemHostGetFlags 2030 (flags: Out<u32>, host: Address);
    cuMemHostRegister 6050 (pointer: Address, bytes: usize, flags: u32);
    cuMemHostUnregister 4000 (pointer: Address);
    cuPointerGetAttributes 7000 (count: u32, attributes: In<u32>, values: In<Address>, pointer: Address);
    cuMemAllocAsync 11020 (pointer: Out<Address>, bytes: usize, stream: Handle);
    cuMemAllocAsync_ptsz per_thread cuMemAllocAsync 11020 (pointer: Out<Address>, bytes: usize, stream: Handle);
    cuMemAllocFromPoolAsync 11020 (pointer: Out<Address>, bytes: usize, pool: Handle, stream: Handle);
    cuMemAllocFromPoolAsync_ptsz per_thread cuMemAllocFromPoolAsync 11020 (pointer: Out<Address>, bytes: usize, pool: Handle, stream: Handle);
    cuMemFreeAsync 11020 (pointer: Address, stream: Handle);
    cuMemFreeAsync_ptsz per_thread cuMemFreeAsync 11020 (pointer: Address, stream: Handle);
    cuMemPoolTrimTo 11020 (pool: Handle, keep: usize);
    cuMemPoolSetAttribute 11020 (pool: Handle, attribute: u32, value: Address);
    cuMemPoolGetAttribute 11020 (pool: Handle, attribute: u32, value: Address);
    cuMemPoolSetAccess 11020 (pool: Handle, list: In<CuMemAccessDesc>, count: usize);
    cuMemPoolGetAccess 11020 (flags: Out<u32>, pool: Handle, location: In<CuMemLocation>);
    cuMemPoolCreate 11020 (pool: Out<Handle>, properties: In<CuMemPoolProps>);
    cuMemPoolDestroy 11020 (pool: Handle);
    cuMemPoolExportToShareableHandle 11020 (handle: Address, pool: Handle, kind: u32, flags: u64);
    cuMemPoolImportFromShareableHandle 11020 (pool: Out<Handle>, handle: Address, kind: u32, flags: u64);
    cuMemPoolExportPointer 11020 (data: Address, pointer: Address);
    cuMemPoolImportPointer 11020 (pointer: Out<Address>, pool: Handle, data: Address);
    cuMemGetDefaultMemPool 13000 (pool: Out<Handle>, location: In<CuMemLocation>, kind: u32);
    cuMemGetMemPool 13000 (pool: Out<Handle>, location: In<CuMemLocation>, kind: u32);
    cuMemSetMemPool 13000 (location: In<CuMemLocation>, kind: u32, pool: Handle);
    cuMemcpy 4000 (to: Address, from: Address, bytes: usize);
    cuMemcpyAsync 4000 (to: Address, from: Address, bytes: usize, stream: Handle);
    cuMemcpyPeer 4000 (to: Address, to_context: Handle, from: Address, from_context: Handle, bytes: usize);
    cuMemcpyPeerAsync 4000 (to: Address, to_context: Handle, from: Address, from_context: Handle, bytes: usize, stream: Handle);
    cuMemcpyHtoD 3020 (to: Address, from: Address, bytes: usize);
    cuMemcpyHtoDAsync 3020 (to: Address, from: Address, bytes: usize, stream: Handle);
    cuMemcpyDtoH 3020 (to: Address, from: Address, bytes: usize);
    cuMemcpyDtoHAsync 3020 (to: Address, from: Address, bytes: usize, stream: Handle);
    cuMemcpyDtoD 3020 (to: Address, from: Address, bytes: usize);
    cuMemcpyDtoDAsync 3020 (to: Address, from: Address, bytes: usize, stream: Handle);
    cuMemcpy2DUnaligned 3020 (copy: In<Memcpy2d>);
    cuMemcpy2DAsync 3020 (copy: In<Memcpy2d>, stream: Handle);
    cuMemcpy3D 3020 (copy: In<Memcpy3d>);
    cuMemcpy3DAsync 3020 (copy: In<Memcpy3d>, stream: Handle);
    cuMemcpy3DPeer 4000 (copy: In<Memcpy3d>);
    cuMemcpy3DPeerAsync 4000 (copy: In<Memcpy3d>, stream: Handle);
    cuMemcpyBatchAsync 13000 (to: Address, from: Address, bytes: Address, count: usize, attributes: Address, indices: Address, attribute_count: usize, stream: Handle);
    cuMemsetD8 3020 (pointer: Address, value: u8, bytes: usize);
    cuMemsetD8Async 3020 (pointer: Address, value: u8, bytes: usize, stream: Handle);
    cuMemsetD2D8 3020 (pointer: Address, pitch: usize, value: u8, width: usize, height: usize);
    cuMemsetD2D8Async 3020 (pointer: Address, pitch: usize, value: u8, width: usize, height: usize, stream: Handle);
    cuArrayCreate 3020 (array: Out<Handle>, shape: In<CuArrayDescriptor>);
    cuArray3DCreate 3020 (array: Out<Handle>, shape: In<CuArray3dDescriptor>);
    cuArray3DGetDescriptor 3020 (shape: Out<CuArray3dDescriptor>, array: Handle);
    cuArrayDestroy 2000 (array: Handle);
    cuArrayGetPlane 11020 (plane: Out<Handle>, array: Handle, index: u32);
    cuMipmappedArrayCreate 5000 (array: Out<Handle>, shape: In<CuArray3dDescriptor>, levels: u32);
    cuMipmappedArrayGetLevel 5000 (array: Out<Handle>, mipmapped: Handle, level: u32);
    cuMipmappedArrayDestroy 5000 (mipmapped: Handle);
    cuMemAdvise 12020 (pointer: Address, bytes: usize, advice: u32, location: CuMemLocation);
    cuMemPrefetchAsync 12020 (pointer: Address, bytes: usize, location: CuMemLocation, flags: u32, stream: Handle);
    cuMemRangeGetAttribute 8000 (value: Address, value_bytes: usize, attribute: u32, pointer: Address, bytes: usize);
    cuMemRangeGetAttributes 8000 (values: Address, value_bytes: Address, attributes: Address, count: usize, pointer: Address, bytes: usize);
    cuIpcGetEventHandle 4010 (handle: Out<CuIpcMemHandle>, event: Handle);
    cuIpcOpenEventHandle 4010 (event: Out<Handle>, handle: CuIpcMemHandle);
    cuIpcGetMemHandle 4010 (handle: Out<CuIpcMemHandle>, pointer: Address);
    cuIpcOpenMemHandle 11000 (pointer: Out<Address>, handle: CuIpcMemHandle, flags: u32);
    cuIpcCloseMemHandle 4010 (pointer: Address);
    cuImportExternalMemory 10000 (memory: Out<Handle>, descriptor: Address);
    cuExternalMemoryGetMappedBuffer 10000 (pointer: Out<Address>, memory: Handle, descriptor: Address);
    cuExternalMemoryGetMappedMipmappedArray 10000 (mipmapped: Out<Handle>, memory: Handle, descriptor: In<ExternalArray>);
    cuDestroyExternalMemory 10000 (memory: Handle);
    cuMemPrefetchBatchAsync 13000 (pointers: Address, sizes: Address, count: usize, places: Address, firsts: Address, given: usize, flags: u64, stream: Handle);
    cuMemDiscardBatchAsync 13000 (pointers: Address, sizes: Address, count: usize, flags: u64, stream: Handle);
    cuMemDiscardAndPrefetchBatchAsync 13000 (pointers: Address, sizes: Address, count: usize, places: Address, firsts: Address, given: usize, flags: u64, stream: Handle);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copy_structures_have_cudas_sizes() {
        assert_eq!(size_of::<Memcpy2d>(), 128);
        assert_eq!(size_of::<Memcpy3d>(), 200);
        assert_eq!(size_of::<ExternalArray>(), 120);
    }
}
