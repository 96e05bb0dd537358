//! Functions of the runtime that call hooked functions of the driver, which record the effects: only the
//! name that the program called, and the caller, are recorded here.
//!
//! If a runtime reached the driver without the hooks, nothing would be recorded; the account reports
//! that. If CUDA's versions differ in the number of arguments, the maximum number is passed on.

use core::ffi::{c_char, c_int, c_void};

use gpumem_cuda_abi::{
    CuExternalMemory, CuGraph, CuGraphExec, CuGraphNode, CuIpcMemHandle, CuLibrary, CuMemoryPool,
    CuMipmappedArray, CuStream, CudaError,
};

/// Like `named!`, for functions that cannot work without the driver's.
macro_rules! reaching {
    ($($(#[$doc:meta])* fn $name:ident($($arg:ident: $type:ty),* $(,)?);)*) => {$(
        hook! {
            $(#[$doc])*
            Runtime Optional
            fn $name($($arg: $type),*) -> CudaError;
            missing CudaError::INITIALIZATION_ERROR;
            with call, thread, result, held;
            before {}
            after {
                if result.is_success() && !call.reached_driver() {
                    crate::account::unreached();
                }
            }
        }
    )*};
}

named! {
    /// Ends a pool.
    fn cudaMemPoolDestroy(pool: CuMemoryPool);
    /// Frees unused memory of a pool.
    fn cudaMemPoolTrimTo(pool: CuMemoryPool, keep: usize);
    /// Changes how much memory a pool keeps.
    fn cudaMemPoolSetAttribute(pool: CuMemoryPool, attribute: c_int, value: *mut c_void);
    /// Closes another process's allocation.
    fn cudaIpcCloseMemHandle(pointer: *mut c_void);
    /// Ends an object of another API.
    fn cudaDestroyExternalMemory(memory: CuExternalMemory);
    /// Sizes of stacks, heap and printf's buffer.
    fn cudaDeviceSetLimit(limit: c_int, value: usize);
    /// CUDA 2's form.
    fn cudaThreadSetLimit(limit: c_int, value: usize);
    /// Ends the primary context, by CUDA 2's name.
    fn cudaThreadExit();
    /// Frees unused memory behind a device's graphs.
    fn cudaDeviceGraphMemTrim(device: c_int);
    /// Ends an executable graph.
    fn cudaGraphExecDestroy(exec: CuGraphExec);
    /// Ends a graph.
    fn cudaGraphDestroy(graph: CuGraph);
    /// Ends a library of kernels.
    fn cudaLibraryUnload(library: CuLibrary);
    /// Ends a green context.
    fn cudaExecutionCtxDestroy(context: *mut c_void);
    /// A stream of a green context.
    fn cudaExecutionCtxStreamCreate(
        stream: *mut CuStream,
        context: *mut c_void,
        flags: u32,
        priority: c_int,
    );
}

reaching! {
    /// Another process's pool.
    fn cudaMemPoolImportFromShareableHandle(
        pool: *mut CuMemoryPool,
        handle: *mut c_void,
        kind: c_int,
        flags: u32,
    );
    /// A block of such a pool.
    fn cudaMemPoolImportPointer(pointer: *mut *mut c_void, pool: CuMemoryPool, shared: *mut c_void);
    /// Another process's allocation.
    fn cudaIpcOpenMemHandle(pointer: *mut *mut c_void, handle: CuIpcMemHandle, flags: u32);
    /// An object of another API.
    fn cudaImportExternalMemory(memory: *mut CuExternalMemory, description: *const c_void);
    /// A part of such an object at an address.
    fn cudaExternalMemoryGetMappedBuffer(
        pointer: *mut *mut c_void,
        memory: CuExternalMemory,
        description: *const c_void,
    );
    /// A part of such an object as a mipmapped array.
    fn cudaExternalMemoryGetMappedMipmappedArray(
        array: *mut CuMipmappedArray,
        memory: CuExternalMemory,
        description: *const c_void,
    );
    /// A node that allocates.
    fn cudaGraphAddMemAllocNode(
        node: *mut CuGraphNode,
        graph: CuGraph,
        dependencies: *const CuGraphNode,
        count: usize,
        params: *mut c_void,
    );
    /// A node that frees.
    fn cudaGraphAddMemFreeNode(
        node: *mut CuGraphNode,
        graph: CuGraph,
        dependencies: *const CuGraphNode,
        count: usize,
        pointer: *mut c_void,
    );
    /// A node of any kind; CUDA 12 has one argument less.
    fn cudaGraphAddNode(
        node: *mut CuGraphNode,
        graph: CuGraph,
        dependencies: *const CuGraphNode,
        fourth: usize,
        fifth: usize,
        sixth: usize,
    );
    /// A node of any kind, with edge data, by CUDA 12's name.
    fn cudaGraphAddNode_v2(
        node: *mut CuGraphNode,
        graph: CuGraph,
        dependencies: *const CuGraphNode,
        data: *const c_void,
        count: usize,
        params: *mut c_void,
    );
    /// An executable graph; CUDA 12 has two arguments less than CUDA 11.
    fn cudaGraphInstantiate(
        exec: *mut CuGraphExec,
        graph: CuGraph,
        third: usize,
        log: *mut c_char,
        size: usize,
    );
    /// An executable graph.
    fn cudaGraphInstantiateWithFlags(exec: *mut CuGraphExec, graph: CuGraph, flags: u64);
    /// An executable graph, with parameters in a structure.
    fn cudaGraphInstantiateWithParams(exec: *mut CuGraphExec, graph: CuGraph, params: *mut c_void);
    /// An executable graph, with parameters in a structure, per-thread default stream.
    fn cudaGraphInstantiateWithParams_ptsz(
        exec: *mut CuGraphExec,
        graph: CuGraph,
        params: *mut c_void,
    );
    /// Uploads an executable graph to its device.
    fn cudaGraphUpload(exec: CuGraphExec, stream: CuStream);
    /// Uploads an executable graph to its device, per-thread default stream.
    fn cudaGraphUpload_ptsz(exec: CuGraphExec, stream: CuStream);
    /// Runs a graph.
    fn cudaGraphLaunch(exec: CuGraphExec, stream: CuStream);
    /// Runs a graph, per-thread default stream.
    fn cudaGraphLaunch_ptsz(exec: CuGraphExec, stream: CuStream);
    /// A stream.
    fn cudaStreamCreate(stream: *mut CuStream);
    /// A stream, with flags.
    fn cudaStreamCreateWithFlags(stream: *mut CuStream, flags: u32);
    /// A stream, with a priority.
    fn cudaStreamCreateWithPriority(stream: *mut CuStream, flags: u32, priority: c_int);
    /// A part of a device.
    fn cudaGreenCtxCreate(context: *mut *mut c_void, resources: *mut c_void, device: c_int, flags: u32);
}

named! {
    /// A library of kernels in memory. The options are arrays of `count` entries.
    fn cudaLibraryLoadData(
        library: *mut CuLibrary,
        code: *const c_void,
        linker_options: *mut c_int,
        linker_values: *mut *mut c_void,
        linker_count: u32,
        options: *mut c_int,
        values: *mut *mut c_void,
        count: u32,
    );
    /// A library of kernels in a file.
    fn cudaLibraryLoadFromFile(
        library: *mut CuLibrary,
        path: *const c_char,
        linker_options: *mut c_int,
        linker_values: *mut *mut c_void,
        linker_count: u32,
        options: *mut c_int,
        values: *mut *mut c_void,
        count: u32,
    );
}
