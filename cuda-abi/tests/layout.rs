//! Sizes and alignments of our structures against those of the `cudarc` crate's bindings, which were
//! generated from NVIDIA's own headers (CUDA 12.8).

use core::mem::{align_of, offset_of, size_of};
use cudarc::driver::sys;
use cudarc::runtime::sys as runtime;
use gpumem_cuda_abi::*;

macro_rules! same_layout {
    ($($ours:ty = $theirs:ty;)*) => {$(
        assert_eq!(size_of::<$ours>(), size_of::<$theirs>(), "size of {}", stringify!($ours));
        assert_eq!(align_of::<$ours>(), align_of::<$theirs>(), "alignment of {}", stringify!($ours));
    )*};
}

#[test]
fn handles_and_results() {
    same_layout! {
        CuContext = sys::CUcontext;
        CuModule = sys::CUmodule;
        CuFunction = sys::CUfunction;
        CuLibrary = sys::CUlibrary;
        CuKernel = sys::CUkernel;
        CuStream = sys::CUstream;
        CuEvent = sys::CUevent;
        CuMemoryPool = sys::CUmemoryPool;
        CuArray = sys::CUarray;
        CuMipmappedArray = sys::CUmipmappedArray;
        CuGraph = sys::CUgraph;
        CuGraphNode = sys::CUgraphNode;
        CuGraphExec = sys::CUgraphExec;
        CuExternalMemory = sys::CUexternalMemory;
        CuGreenCtx = sys::CUgreenCtx;
        CuDevice = sys::CUdevice;
        CuDevicePtr = sys::CUdeviceptr;
        CuMemHandle = sys::CUmemGenericAllocationHandle;
        CuUuid = sys::CUuuid;
        CuResult = sys::CUresult;
        CuProcAddressStatus = sys::CUdriverProcAddressQueryResult;
        CudaError = runtime::cudaError_t;
    }
}

#[test]
fn structures() {
    same_layout! {
        CuMemLocation = sys::CUmemLocation;
        CuMemAllocationProp = sys::CUmemAllocationProp;
        CuMemAccessDesc = sys::CUmemAccessDesc;
        CuMemPoolProps = sys::CUmemPoolProps;
        CuMemAllocNodeParams = sys::CUDA_MEM_ALLOC_NODE_PARAMS_v1;
        CuGraphNodeParams = sys::CUgraphNodeParams;
        CuGraphInstantiateParams = sys::CUDA_GRAPH_INSTANTIATE_PARAMS;
        CuKernelNodeParams = sys::CUDA_KERNEL_NODE_PARAMS_v2;
        CuMemsetNodeParams = sys::CUDA_MEMSET_NODE_PARAMS_v2;
        CuHostNodeParams = sys::CUDA_HOST_NODE_PARAMS_v1;
        CuGraphExecUpdateResultInfo = sys::CUgraphExecUpdateResultInfo_v1;
        CuMemcpy3d = sys::CUDA_MEMCPY3D_v2;
        CuIpcMemHandle = sys::CUipcMemHandle;
        CuArrayDescriptor = sys::CUDA_ARRAY_DESCRIPTOR;
        CuArray3dDescriptor = sys::CUDA_ARRAY3D_DESCRIPTOR;
        CuMulticastObjectProp = sys::CUmulticastObjectProp;
        CuExternalMemoryHandleDesc = sys::CUDA_EXTERNAL_MEMORY_HANDLE_DESC;
        CuExternalMemoryBufferDesc = sys::CUDA_EXTERNAL_MEMORY_BUFFER_DESC;
        CuExternalMemoryMipmappedArrayDesc = sys::CUDA_EXTERNAL_MEMORY_MIPMAPPED_ARRAY_DESC;
        CudaChannelFormatDesc = runtime::cudaChannelFormatDesc;
        CudaExtent = runtime::cudaExtent;
        CudaPitchedPtr = runtime::cudaPitchedPtr;
        Dim3 = runtime::dim3;
    }
}

#[test]
fn fields_that_the_hooks_read() {
    assert_eq!(
        offset_of!(CuMemAllocationProp, location),
        offset_of!(sys::CUmemAllocationProp, location)
    );
    assert_eq!(
        offset_of!(CuMemAllocationProp, requested_handle_types),
        offset_of!(sys::CUmemAllocationProp, requestedHandleTypes)
    );
    assert_eq!(
        offset_of!(CuMemPoolProps, location),
        offset_of!(sys::CUmemPoolProps, location)
    );
    assert_eq!(
        offset_of!(CuMemPoolProps, max_size),
        offset_of!(sys::CUmemPoolProps, maxSize)
    );
    assert_eq!(
        offset_of!(CudaPitchedPtr, pitch),
        offset_of!(runtime::cudaPitchedPtr, pitch)
    );
    assert_eq!(
        offset_of!(CudaPitchedPtr, ysize),
        offset_of!(runtime::cudaPitchedPtr, ysize)
    );
    assert_eq!(
        offset_of!(CuArray3dDescriptor, format),
        offset_of!(sys::CUDA_ARRAY3D_DESCRIPTOR, Format)
    );
}

macro_rules! same_places {
    ($($ours:ident.$field:ident = $theirs:ident.$their_field:ident;)*) => {$(
        assert_eq!(
            offset_of!($ours, $field),
            offset_of!(sys::$theirs, $their_field),
            "{}.{}", stringify!($ours), stringify!($field)
        );
    )*};
}

#[test]
fn fields_of_external_memory_and_multicast() {
    same_places! {
        CuMulticastObjectProp.size = CUmulticastObjectProp.size;
        CuExternalMemoryHandleDesc.size = CUDA_EXTERNAL_MEMORY_HANDLE_DESC.size;
        CuExternalMemoryBufferDesc.size = CUDA_EXTERNAL_MEMORY_BUFFER_DESC.size;
        CuExternalMemoryMipmappedArrayDesc.array = CUDA_EXTERNAL_MEMORY_MIPMAPPED_ARRAY_DESC.arrayDesc;
        CuExternalMemoryMipmappedArrayDesc.num_levels = CUDA_EXTERNAL_MEMORY_MIPMAPPED_ARRAY_DESC.numLevels;
    }
}

#[test]
fn old_descriptors() {
    // cuda.h defines them only inside the library: four and six words.
    assert_eq!(size_of::<CuArrayDescriptorV1>(), 16);
    assert_eq!(size_of::<CuArray3dDescriptorV1>(), 24);
}

#[test]
fn codes() {
    for (ours, theirs) in [
        (CuResult::SUCCESS, sys::CUresult::CUDA_SUCCESS),
        (
            CuResult::OUT_OF_MEMORY,
            sys::CUresult::CUDA_ERROR_OUT_OF_MEMORY,
        ),
        (
            CuResult::INVALID_CONTEXT,
            sys::CUresult::CUDA_ERROR_INVALID_CONTEXT,
        ),
        (CuResult::NOT_FOUND, sys::CUresult::CUDA_ERROR_NOT_FOUND),
        (
            CuResult::NOT_SUPPORTED,
            sys::CUresult::CUDA_ERROR_NOT_SUPPORTED,
        ),
    ] {
        assert_eq!(ours.0, theirs as u32);
        assert_eq!(ours.name().map(str::to_owned), Some(format!("{theirs:?}")));
    }
    assert_eq!(CuResult(12_345).name(), None);
    assert_eq!(
        CudaError::MEMORY_ALLOCATION.0,
        runtime::cudaError_t::cudaErrorMemoryAllocation as u32
    );
}
