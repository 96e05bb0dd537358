//! The hooks, one family a file, and the macro that makes each of them.

/// The table's entry of the hook of that name, in a module of that name, with what `$inside` adds.
macro_rules! entry {
    ($home:ident $need:ident $name:ident $($inside:item)*) => {
        #[allow(non_snake_case)]
        pub(crate) mod $name {
            #[allow(unused_imports)]
            use super::*;

            pub(crate) static HOOK: crate::symbols::table::Hook = crate::symbols::table::Hook::new(
                crate::hooks::number(stringify!($name)),
                match core::ffi::CStr::from_bytes_with_nul(
                    concat!(stringify!($name), "\0").as_bytes(),
                ) {
                    Ok(name) => name,
                    Err(_) => c"",
                },
                crate::symbols::table::Home::$home,
                crate::symbols::table::Need::$need,
                crate::symbols::table::Code(super::$name as *const core::ffi::c_void),
            );

            $($inside)*
        }
    };
}

/// A hook: its entry and the exported function that stands before the real one. The exported function
/// only notes who calls and jumps on to the body. Without `after`, nothing of ours follows the real call.
/// `takes` says the most that the call may take of a card: see [`crate::limit`].
macro_rules! hook {
    (
        $(#[$doc:meta])*
        $home:ident $need:ident
        fn $name:ident($($arg:ident: $type:ty),* $(,)?) -> $ret:ty;
        missing $missing:expr;
        $(takes $takes:expr;)?
        with $call:ident, $thread:ident, $result:ident, $held:ident;
        before $before:block
        $(after $after:block)?
    ) => {
        entry! {
            $home $need $name

            #[allow(clippy::too_many_arguments)]
            pub(super) unsafe extern "C-unwind" fn body($($arg: $type),*) -> $ret {
                let caller = crate::caller::noted();
                let address = HOOK.real();
                if address == 0 {
                    return $missing;
                }
                type Real = unsafe extern "C-unwind" fn($($type),*) -> $ret;
                // SAFETY: the address is that of the function of this name, whose type this is.
                let real = unsafe { core::mem::transmute::<usize, Real>(address) };
                #[allow(unused_mut, unused_variables)]
                let mut $call = crate::call::Call::enter(&HOOK, caller);
                #[allow(unused_variables, clippy::let_unit_value)]
                let $held = crate::thread::in_hook(|$thread| $before);
                $(let limited = crate::limit::before(|| $takes);)?
                // SAFETY: the caller's own arguments.
                #[allow(clippy::let_unit_value, clippy::let_and_return)]
                let $result = unsafe { real($($arg),*) };
                $(
                    let _: &str = stringify!($takes);
                    drop(limited);
                )?
                $(
                    #[allow(unused_variables)]
                    let _ = crate::thread::in_hook(|$thread| $after);
                )?
                $result
            }
        }

        $(#[$doc])*
        ///
        /// # Safety
        /// As the function that it stands before: the arguments go to it unchanged.
        #[unsafe(naked)]
        #[unsafe(no_mangle)]
        #[allow(non_snake_case, clippy::too_many_arguments)]
        pub unsafe extern "C-unwind" fn $name($($arg: $type),*) -> $ret {
            crate::caller::note_and_go_on!($name::body)
        }
    };
}

/// A hook of a function of the runtime that goes on to hooked functions of the driver: what it takes is
/// the name that the program called, and who called.
macro_rules! named {
    ($($(#[$doc:meta])* fn $name:ident($($arg:ident: $type:ty),* $(,)?);)*) => {$(
        hook! {
            $(#[$doc])*
            Runtime Optional
            fn $name($($arg: $type),*) -> gpumem_cuda_abi::CudaError;
            missing gpumem_cuda_abi::CudaError::INITIALIZATION_ERROR;
            with call, thread, result, held;
            before {}
        }
    )*};
}

pub(crate) mod address;
pub(crate) mod aliases;
mod array_size;
pub(crate) mod arrays;
pub(crate) mod autograd;
pub(crate) mod context;
pub(crate) mod graphs;
pub(crate) mod green;
pub(crate) mod host_register;
pub(crate) mod launch;
pub(crate) mod limits;
pub(crate) mod memory;
pub(crate) mod modules;
pub(crate) mod multicast;
pub(crate) mod old;
pub(crate) mod pools;
pub(crate) mod proc_address;
pub(crate) mod pytorch;
pub(crate) mod questions;
pub(crate) mod runtime;
pub(crate) mod runtime_arrays;
pub(crate) mod runtime_names;
mod seen;
pub(crate) mod sharing;
pub(crate) mod stream_ordered;
pub(crate) mod sync;
pub(crate) mod vmm;

use crate::symbols::table::Hook;

/// Lists every hook by family. A hook's number is its place in the list, from 1.
macro_rules! manifest {
    ($($family:ident: $($name:ident),* $(,)?;)*) => {
        /// Every hook, in the order of its number.
        pub(crate) static ALL: &[&Hook] = &[$($(&$family::$name::HOOK),*),*];

        const NAMES: &[&str] = &[$($(stringify!($name)),*),*];
    };
}

manifest! {
    proc_address: cuGetProcAddress, cuGetProcAddress_v2;
    memory: cuMemAlloc_v2, cuMemAllocPitch_v2, cuMemAllocManaged, cuMemFree_v2, cuMemAllocHost_v2,
        cuMemHostAlloc, cuMemFreeHost;
    stream_ordered: cuMemAllocAsync, cuMemAllocAsync_ptsz, cuMemAllocFromPoolAsync,
        cuMemAllocFromPoolAsync_ptsz, cuMemFreeAsync, cuMemFreeAsync_ptsz;
    pools: cuMemPoolCreate, cuMemPoolDestroy, cuMemPoolTrimTo, cuMemPoolSetAttribute;
    graphs: cuGraphAddMemAllocNode, cuGraphAddMemFreeNode, cuGraphAddNode, cuGraphAddNode_v2, cuGraphAddNode_v3,
        cuGraphAddChildGraphNode, cuGraphDestroyNode, cuGraphDestroy, cuGraphInstantiate,
        cuGraphInstantiate_v2, cuGraphInstantiateWithFlags, cuGraphInstantiateWithParams,
        cuGraphInstantiateWithParams_ptsz, cuGraphUpload, cuGraphUpload_ptsz, cuGraphLaunch,
        cuGraphLaunch_ptsz, cuGraphExecDestroy, cuDeviceGraphMemTrim;
    sync: cuStreamSynchronize, cuStreamSynchronize_ptsz, cuEventSynchronize, cuCtxSynchronize,
        cuCtxSynchronize_v2;
    vmm: cuMemCreate, cuMemRelease, cuMemRetainAllocationHandle, cuMemImportFromShareableHandle,
        cuMemMap, cuMemUnmap;
    context: cuDevicePrimaryCtxRetain, cuDevicePrimaryCtxRelease, cuDevicePrimaryCtxRelease_v2,
        cuDevicePrimaryCtxReset, cuDevicePrimaryCtxReset_v2, cuCtxCreate_v2, cuCtxCreate_v3,
        cuCtxCreate_v4, cuCtxDestroy_v2, cuCtxCreate, cuCtxDestroy, cuGLCtxCreate_v2, cuGLCtxCreate;
    green: cuGreenCtxCreate, cuCtxFromGreenCtx, cuGreenCtxDestroy;
    arrays: cuArrayCreate_v2, cuArray3DCreate_v2, cuMipmappedArrayCreate, cuArrayDestroy,
        cuMipmappedArrayDestroy, cuMemMapArrayAsync, cuMemMapArrayAsync_ptsz;
    host_register: cuMemHostRegister_v2, cuMemHostRegister, cuMemHostUnregister;
    address: cuMemAddressReserve, cuMemAddressFree;
    aliases: cuIpcOpenMemHandle_v2, cuIpcOpenMemHandle, cuIpcCloseMemHandle, cuImportExternalMemory,
        cuExternalMemoryGetMappedBuffer, cuExternalMemoryGetMappedMipmappedArray,
        cuDestroyExternalMemory, cuMemPoolImportFromShareableHandle, cuMemPoolImportPointer;
    sharing: cuMemExportToShareableHandle, cuMemPoolExportToShareableHandle, cuIpcGetMemHandle;
    multicast: cuMulticastCreate, cuMulticastBindMem, cuMulticastBindMem_v2, cuMulticastBindAddr,
        cuMulticastBindAddr_v2, cuMulticastUnbind;
    old: cuMemAlloc, cuMemAllocPitch, cuMemFree, cuMemAllocHost, cuArrayCreate, cuArray3DCreate,
        cuVDPAUCtxCreate_v2, cuVDPAUCtxCreate, cuCtxAttach, cuCtxDetach;
    modules: cuModuleLoad, cuModuleLoadData, cuModuleLoadDataEx, cuModuleLoadFatBinary, cuModuleUnload,
        cuLibraryLoadData, cuLibraryLoadFromFile, cuLibraryUnload, cuLibraryGetKernel,
        cuLibraryGetModule, cuModuleGetFunction, cuKernelGetFunction, cuFuncLoad,
        cuModuleGetGlobal_v2, cuLibraryGetGlobal, cuLibraryGetManaged;
    limits: cuCtxSetLimit;
    launch: cuLaunchKernel, cuLaunchKernel_ptsz, cuLaunchKernelEx, cuLaunchKernelEx_ptsz,
        cuLaunchCooperativeKernel, cuLaunchCooperativeKernel_ptsz, cuLaunch,
        cuLaunchGrid, cuLaunchGridAsync;
    runtime: cudaMalloc, cudaMallocPitch, cudaMalloc3D, cudaMallocManaged, cudaMallocHost,
        cudaHostAlloc, cudaMallocAsync, cudaMallocAsync_ptsz, cudaMallocFromPoolAsync,
        cudaMallocFromPoolAsync_ptsz, cudaFree, cudaFreeHost, cudaFreeAsync, cudaFreeAsync_ptsz,
        cudaDeviceReset;
    runtime_arrays: cudaMallocArray, cudaMalloc3DArray, cudaMallocMipmappedArray, cudaFreeArray,
        cudaFreeMipmappedArray, cudaHostRegister, cudaHostUnregister;
    runtime_names: cudaMemPoolDestroy, cudaMemPoolTrimTo, cudaMemPoolSetAttribute,
        cudaMemPoolImportFromShareableHandle, cudaMemPoolImportPointer, cudaIpcOpenMemHandle,
        cudaIpcCloseMemHandle, cudaImportExternalMemory, cudaExternalMemoryGetMappedBuffer,
        cudaExternalMemoryGetMappedMipmappedArray, cudaDestroyExternalMemory, cudaDeviceSetLimit,
        cudaThreadSetLimit, cudaThreadExit, cudaDeviceGraphMemTrim, cudaGraphAddMemAllocNode,
        cudaGraphAddMemFreeNode, cudaGraphAddNode, cudaGraphAddNode_v2, cudaGraphInstantiate,
        cudaGraphInstantiateWithFlags, cudaGraphInstantiateWithParams,
        cudaGraphInstantiateWithParams_ptsz, cudaGraphUpload, cudaGraphUpload_ptsz, cudaGraphLaunch,
        cudaGraphLaunch_ptsz, cudaGraphExecDestroy, cudaGraphDestroy, cudaLibraryLoadData,
        cudaLibraryLoadFromFile, cudaLibraryUnload, cudaGreenCtxCreate, cudaExecutionCtxDestroy;
    pytorch: _ZN3c1027reportMemoryUsageToProfilerEPvlmmNS_6DeviceE,
        _ZN3c1027reportMemoryUsageToProfilerEPvlllNS_6DeviceE,
        _ZN3c1027reportMemoryUsageToProfilerEPvlNS_6DeviceE,
        _ZN3c1027reportOutOfMemoryToProfilerElmmNS_6DeviceE,
        _ZN3c1027reportOutOfMemoryToProfilerElllNS_6DeviceE;
    autograd: _ZN2at15sequence_number17get_and_incrementEv,
        _ZN5torch8autograd6Engine17evaluate_functionERSt10shared_ptrINS0_9GraphTaskEEPNS0_4NodeERNS0_11InputBufferERKS2_INS0_10ReadyQueueEE,
        _ZN5torch8autograd6Engine7executeERKSt6vectorINS0_4EdgeESaIS3_EERKS2_IN2at6TensorESaIS9_EEbbbS7_,
        _ZN2at14RecordFunctionC1ENS_11RecordScopeE,
        _ZN2at14RecordFunction3endEv,
        _ZN2at4cuda25allocateCUDABlasWorkspaceEm,
        _ZN3c1011LogAPIUsageERKNSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEE,
        _ZN3c1011LogAPIUsageERKSs,
        _ZN2at4cuda24getCurrentCUDABlasHandleEv,
        _ZN2at4cuda22getCUDABlasLtWorkspaceEv;
    questions: cuMemGetInfo_v2, cuMemGetInfo, cuDeviceTotalMem_v2, cuDeviceTotalMem,
        nvmlDeviceGetMemoryInfo, nvmlDeviceGetMemoryInfo_v2;
}

/// The number of the hook of that name; it does not compile for a name that is not in the list.
pub(crate) const fn number(name: &str) -> u16 {
    let mut place = 0;
    while place < NAMES.len() {
        if same(NAMES[place].as_bytes(), name.as_bytes()) {
            return place as u16 + 1;
        }
        place += 1;
    }
    panic!("a hook that is not in the list");
}

const fn same(a: &[u8], b: &[u8]) -> bool {
    if a.len() != b.len() {
        return false;
    }
    let mut i = 0;
    while i < a.len() {
        if a[i] != b[i] {
            return false;
        }
        i += 1;
    }
    true
}
