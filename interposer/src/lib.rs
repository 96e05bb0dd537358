//! libgpumem.so: preloaded into a program, it records every CUDA allocation and every PyTorch tensor,
//! without changing the program's behaviour.
//!
//! All exports of the library are listed here, and a test compares the list with the library's symbol table.
//!
//! # Design constraints
//! - Every call goes to the real function once, with the caller's own arguments, and the caller gets that
//!   function's own result, whether or not recording succeeds.
//! - The GIL is taken in two places, by a thread that may: where PyTorch lets its observers of failures take it, and in
//!   `gpumem_holders`. No lock is held across a driver call, nothing is shut down.
//! - Nothing happens (no file, no thread, no output) in a process that allocates no CUDA memory.
//!
//! # Not suitable for
//! Linking into a program. Preload it: `LD_PRELOAD=libgpumem.so python train.py`.

mod account;
mod allocator;
mod backward;
mod call;
mod call_counts;
mod call_timer;
mod call_times;
mod caller;
mod capi;
mod card;
mod contexts;
mod coords;
mod definitions;
mod driver;
mod evidence;
mod exit;
mod facts;
mod failed;
mod fault;
mod holders;
mod hook;
mod hooks;
mod launcher;
mod limit;
mod memory;
mod message;
mod names;
mod nearly_full;
mod nvtx;
mod oom;
mod open;
mod options;
mod output;
mod process;
mod record;
mod resolve;
mod sampler;
mod scopes;
mod session;
mod sideband;
mod stack;
mod stack_sample;
mod stacks;
mod storage;
mod tensors;
mod thread;
mod tracked;
mod workspace;

pub use capi::{
    GpumemCounters, GpumemScopeFigures, gpumem_api_version, gpumem_coords, gpumem_counters,
    gpumem_help_env, gpumem_holders, gpumem_limit, gpumem_mark, gpumem_module_count,
    gpumem_module_roots, gpumem_name_module, gpumem_read_card, gpumem_recording,
    gpumem_report_path, gpumem_scope_begin, gpumem_scope_end, gpumem_scope_forget,
    gpumem_scope_read, gpumem_scope_reset, gpumem_step, gpumem_tell_tensors,
};
pub use fault::exports::{
    __sigaction, __sysv_signal, bsd_signal, sigaction, sigignore, siginterrupt, signal, sigset,
    ssignal, sysv_signal,
};
pub use hooks::address::{cuMemAddressFree, cuMemAddressReserve};
pub use hooks::aliases::{
    cuDestroyExternalMemory, cuExternalMemoryGetMappedBuffer,
    cuExternalMemoryGetMappedMipmappedArray, cuImportExternalMemory, cuIpcCloseMemHandle,
    cuIpcOpenMemHandle, cuIpcOpenMemHandle_v2, cuMemPoolImportFromShareableHandle,
    cuMemPoolImportPointer,
};
pub use hooks::allocator::{
    _ZN3c104cuda20CUDACachingAllocator10emptyCacheEv,
    _ZN3c104cuda20CUDACachingAllocator12recordStreamERKNS_7DataPtrENS0_10CUDAStreamE,
    _ZN3c104cuda20CUDACachingAllocator17setMemoryFractionEdi,
    _ZN3c104cuda20CUDACachingAllocator20setAllocatorSettingsERKNSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEE,
    _ZN3c104cuda20CUDACachingAllocator20setAllocatorSettingsERKSs,
    _ZN3c104cuda28device_count_ensure_non_zeroEv,
    _ZN3c1016CachingAllocator26AcceleratorAllocatorConfig9parseArgsERKNSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEE,
};
pub use hooks::arrays::{
    cuArray3DCreate_v2, cuArrayCreate_v2, cuArrayDestroy, cuMipmappedArrayCreate,
    cuMipmappedArrayDestroy,
};
pub use hooks::autograd::{
    _ZN2at4cuda22getCUDABlasLtWorkspaceEv, _ZN2at4cuda24getCurrentCUDABlasHandleEv,
    _ZN2at4cuda25allocateCUDABlasWorkspaceEm, _ZN2at14RecordFunction3endEv,
    _ZN2at14RecordFunctionC1ENS_11RecordScopeE, _ZN2at15sequence_number17get_and_incrementEv,
    _ZN3c1011LogAPIUsageERKNSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEE,
    _ZN3c1011LogAPIUsageERKSs,
    _ZN5torch8autograd6Engine7executeERKSt6vectorINS0_4EdgeESaIS3_EERKS2_IN2at6TensorESaIS9_EEbbbS7_,
    _ZN5torch8autograd6Engine17evaluate_functionERSt10shared_ptrINS0_9GraphTaskEEPNS0_4NodeERNS0_11InputBufferERKS2_INS0_10ReadyQueueEE,
};
pub use hooks::context::{
    cuCtxCreate, cuCtxCreate_v2, cuCtxCreate_v3, cuCtxCreate_v4, cuCtxDestroy, cuCtxDestroy_v2,
    cuDevicePrimaryCtxRelease, cuDevicePrimaryCtxRelease_v2, cuDevicePrimaryCtxReset,
    cuDevicePrimaryCtxReset_v2, cuDevicePrimaryCtxRetain, cuGLCtxCreate, cuGLCtxCreate_v2,
};
pub use hooks::graph_launches::{
    cuDeviceGraphMemTrim, cuGraphExecDestroy, cuGraphInstantiate, cuGraphInstantiate_v2,
    cuGraphInstantiateWithFlags, cuGraphInstantiateWithParams, cuGraphInstantiateWithParams_ptsz,
    cuGraphLaunch, cuGraphLaunch_ptsz, cuGraphUpload, cuGraphUpload_ptsz,
};
pub use hooks::graphs::{
    cuGraphAddChildGraphNode, cuGraphAddMemAllocNode, cuGraphAddMemFreeNode, cuGraphAddNode,
    cuGraphAddNode_v2, cuGraphAddNode_v3, cuGraphDestroy, cuGraphDestroyNode,
};
pub use hooks::green::{cuCtxFromGreenCtx, cuGreenCtxCreate, cuGreenCtxDestroy};
pub use hooks::host_register::{cuMemHostRegister, cuMemHostRegister_v2, cuMemHostUnregister};
pub use hooks::legacy_contexts::{cuCtxAttach, cuCtxDetach, cuVDPAUCtxCreate, cuVDPAUCtxCreate_v2};
pub use hooks::limits::cuCtxSetLimit;
pub use hooks::memory::{
    cuMemAlloc_v2, cuMemAllocHost, cuMemAllocHost_v2, cuMemAllocManaged, cuMemAllocPitch_v2,
    cuMemFree_v2, cuMemFreeHost, cuMemHostAlloc,
};
pub use hooks::modules::{
    cuFuncLoad, cuKernelGetFunction, cuLibraryGetGlobal, cuLibraryGetKernel, cuLibraryGetManaged,
    cuLibraryGetModule, cuLibraryLoadData, cuLibraryLoadFromFile, cuLibraryUnload,
    cuModuleGetFunction, cuModuleGetGlobal_v2, cuModuleLoad, cuModuleLoadData, cuModuleLoadDataEx,
    cuModuleLoadFatBinary, cuModuleUnload,
};
pub use hooks::multicast::{
    cuMulticastBindAddr, cuMulticastBindAddr_v2, cuMulticastBindMem, cuMulticastBindMem_v2,
    cuMulticastCreate, cuMulticastUnbind,
};
pub use hooks::pools::{cuMemPoolCreate, cuMemPoolDestroy, cuMemPoolSetAttribute, cuMemPoolTrimTo};
pub use hooks::proc_address::{cuGetProcAddress, cuGetProcAddress_v2};
pub use hooks::pytorch::{
    _ZN3c1027reportMemoryUsageToProfilerEPvlNS_6DeviceE,
    _ZN3c1027reportMemoryUsageToProfilerEPvlllNS_6DeviceE,
    _ZN3c1027reportMemoryUsageToProfilerEPvlmmNS_6DeviceE,
    _ZN3c1027reportOutOfMemoryToProfilerElllNS_6DeviceE,
    _ZN3c1027reportOutOfMemoryToProfilerElmmNS_6DeviceE,
};
pub use hooks::questions::{
    cuDeviceTotalMem, cuDeviceTotalMem_v2, cuMemGetInfo, cuMemGetInfo_v2, nvmlDeviceGetMemoryInfo,
    nvmlDeviceGetMemoryInfo_v2,
};
pub use hooks::refusals::{
    cuGetErrorString, cudaGetErrorString, cudaGetLastError, cudaPeekAtLastError,
};
pub use hooks::runtime::{
    cudaDeviceReset, cudaFree, cudaFreeAsync, cudaFreeAsync_ptsz, cudaFreeHost, cudaHostAlloc,
    cudaMalloc, cudaMalloc3D, cudaMallocAsync, cudaMallocAsync_ptsz, cudaMallocFromPoolAsync,
    cudaMallocFromPoolAsync_ptsz, cudaMallocHost, cudaMallocManaged, cudaMallocPitch,
};
pub use hooks::runtime_arrays::{
    cudaFreeArray, cudaFreeMipmappedArray, cudaHostRegister, cudaHostUnregister, cudaMalloc3DArray,
    cudaMallocArray, cudaMallocMipmappedArray,
};
pub use hooks::runtime_names::{
    cudaDestroyExternalMemory, cudaDeviceGraphMemTrim, cudaDeviceSetLimit, cudaExecutionCtxDestroy,
    cudaExecutionCtxStreamCreate, cudaExternalMemoryGetMappedBuffer,
    cudaExternalMemoryGetMappedMipmappedArray, cudaGraphAddMemAllocNode, cudaGraphAddMemFreeNode,
    cudaGraphAddNode, cudaGraphAddNode_v2, cudaGraphDestroy, cudaGraphExecDestroy,
    cudaGraphInstantiate, cudaGraphInstantiateWithFlags, cudaGraphInstantiateWithParams,
    cudaGraphInstantiateWithParams_ptsz, cudaGraphLaunch, cudaGraphLaunch_ptsz, cudaGraphUpload,
    cudaGraphUpload_ptsz, cudaGreenCtxCreate, cudaImportExternalMemory, cudaIpcCloseMemHandle,
    cudaIpcOpenMemHandle, cudaLibraryLoadData, cudaLibraryLoadFromFile, cudaLibraryUnload,
    cudaMemPoolDestroy, cudaMemPoolImportFromShareableHandle, cudaMemPoolImportPointer,
    cudaMemPoolSetAttribute, cudaMemPoolTrimTo, cudaStreamCreate, cudaStreamCreateWithFlags,
    cudaStreamCreateWithPriority, cudaThreadExit, cudaThreadSetLimit,
};
pub use hooks::sharing::{
    cuIpcGetMemHandle, cuMemExportToShareableHandle, cuMemPoolExportToShareableHandle,
};
pub use hooks::stream_ordered::{
    cuMemAllocAsync, cuMemAllocAsync_ptsz, cuMemAllocFromPoolAsync, cuMemAllocFromPoolAsync_ptsz,
    cuMemFreeAsync, cuMemFreeAsync_ptsz,
};
pub use hooks::streams::{cuGreenCtxStreamCreate, cuStreamCreate, cuStreamCreateWithPriority};
pub use hooks::sync::{
    cuCtxSynchronize, cuCtxSynchronize_v2, cuEventSynchronize, cuStreamSynchronize,
    cuStreamSynchronize_ptsz,
};
pub use hooks::unrecorded::{
    cuArray3DCreate, cuArrayCreate, cuGraphicsMapResources, cuGraphicsMapResources_ptsz,
    cuMemAlloc, cuMemAllocPitch, cuMemFree, cuMemMapArrayAsync, cuMemMapArrayAsync_ptsz,
};
pub use hooks::vmm::{
    cuMemCreate, cuMemImportFromShareableHandle, cuMemMap, cuMemRelease,
    cuMemRetainAllocationHandle, cuMemSetAccess, cuMemUnmap,
};
pub use nvtx::InitializeInjectionNvtx2;
pub use resolve::dlclose::dlclose;
pub use resolve::dlopen::{dlmopen, dlopen};
pub use resolve::dlsym::{dlsym, dlvsym};
