//! The driver's functions that the random programs call, one per row: the exported name, the name and
//! the versions for `cuGetProcAddress`, the form for the default stream, the parameters.

/// Passes every row to the macro `$make`.
macro_rules! rows {
    ($make:ident) => { $make! {
    cuInit = "cuInit" 2000..NOW Legacy (flags: u32);
    cuDeviceGetCount = "cuDeviceGetCount" 2000..NOW Legacy (count: Out<'_, i32>);

    cuDevicePrimaryCtxRetain = "cuDevicePrimaryCtxRetain" 7000..NOW Legacy
        (context: Out<'_, usize>, device: i32);
    cuDevicePrimaryCtxRelease = "cuDevicePrimaryCtxRelease" 7000..11000 Legacy (device: i32);
    cuDevicePrimaryCtxRelease_v2 = "cuDevicePrimaryCtxRelease" 11000..NOW Legacy (device: i32);
    cuDevicePrimaryCtxReset = "cuDevicePrimaryCtxReset" 7000..11000 Legacy (device: i32);
    cuDevicePrimaryCtxReset_v2 = "cuDevicePrimaryCtxReset" 11000..NOW Legacy (device: i32);
    cuDevicePrimaryCtxGetState = "cuDevicePrimaryCtxGetState" 7000..NOW Legacy
        (device: i32, flags: Out<'_, u32>, active: Out<'_, i32>);
    cuCtxCreate_v2 = "cuCtxCreate" 3020..11040 Legacy
        (context: Out<'_, usize>, flags: u32, device: i32);
    cuCtxCreate_v3 = "cuCtxCreate" 11040..12050 Legacy
        (context: Out<'_, usize>, affinity: usize, affinities: i32, flags: u32, device: i32);
    cuCtxCreate_v4 = "cuCtxCreate" 12050..NOW Legacy
        (context: Out<'_, usize>, parameters: usize, flags: u32, device: i32);
    cuCtxCreate = "cuCtxCreate" 2000..3020 Legacy
        (context: Out<'_, usize>, flags: u32, device: i32);
    cuCtxAttach = "cuCtxAttach" 2000..NOW Legacy (context: Out<'_, usize>, flags: u32);
    cuCtxDetach = "cuCtxDetach" 2000..NOW Legacy (context: usize);
    cuCtxDestroy = "cuCtxDestroy" 2000..4000 Legacy (context: usize);
    cuCtxDestroy_v2 = "cuCtxDestroy" 4000..NOW Legacy (context: usize);
    cuCtxSetCurrent = "cuCtxSetCurrent" 4000..NOW Legacy (context: usize);
    cuCtxGetCurrent = "cuCtxGetCurrent" 4000..NOW Legacy (context: Out<'_, usize>);
    cuCtxGetDevice = "cuCtxGetDevice" 2000..13000 Legacy (device: Out<'_, i32>);
    cuCtxPushCurrent_v2 = "cuCtxPushCurrent" 4000..NOW Legacy (context: usize);
    cuCtxPopCurrent_v2 = "cuCtxPopCurrent" 4000..NOW Legacy (context: Out<'_, usize>);
    cuCtxSynchronize = "cuCtxSynchronize" 2000..13000 Legacy ();
    cuCtxSynchronize_v2 = "cuCtxSynchronize" 13000..NOW Legacy (context: usize);
    cuCtxSetLimit = "cuCtxSetLimit" 3010..NOW Legacy (limit: u32, value: usize);
    cuCtxGetLimit = "cuCtxGetLimit" 3010..NOW Legacy (value: Out<'_, usize>, limit: u32);

    cuDeviceGetDevResource = "cuDeviceGetDevResource" 12040..NOW Legacy
        (device: i32, resource: Out<'_, DeviceResource>, kind: u32);
    cuDevSmResourceSplitByCount = "cuDevSmResourceSplitByCount" 12040..NOW Legacy
        (groups: Out<'_, DeviceResource>, count: Out<'_, u32>, input: In<'_, DeviceResource>,
         rest: Out<'_, DeviceResource>, flags: u32, least: u32);
    cuDevResourceGenerateDesc = "cuDevResourceGenerateDesc" 12040..NOW Legacy
        (description: Out<'_, usize>, resources: In<'_, DeviceResource>, count: u32);
    cuGreenCtxCreate = "cuGreenCtxCreate" 12040..NOW Legacy
        (green: Out<'_, usize>, description: usize, device: i32, flags: u32);
    cuGreenCtxDestroy = "cuGreenCtxDestroy" 12040..NOW Legacy (green: usize);
    cuCtxFromGreenCtx = "cuCtxFromGreenCtx" 12040..NOW Legacy
        (context: Out<'_, usize>, green: usize);
    cuGreenCtxGetDevResource = "cuGreenCtxGetDevResource" 12040..NOW Legacy
        (green: usize, resource: Out<'_, DeviceResource>, kind: u32);
    cuGreenCtxStreamCreate = "cuGreenCtxStreamCreate" 12050..NOW Legacy
        (stream: Out<'_, usize>, green: usize, flags: u32, priority: i32);

    cuMemGetInfo_v2 = "cuMemGetInfo" 3020..NOW Legacy
        (free: Out<'_, usize>, total: Out<'_, usize>);
    cuMemAlloc_v2 = "cuMemAlloc" 3020..NOW Legacy (pointer: Out<'_, Made>, bytes: usize);
    cuMemAllocPitch_v2 = "cuMemAllocPitch" 3020..NOW Legacy
        (pointer: Out<'_, Made>, pitch: Out<'_, usize>, width: usize, height: usize, element: u32);
    cuMemAllocManaged = "cuMemAllocManaged" 6000..NOW Legacy
        (pointer: Out<'_, Made>, bytes: usize, flags: u32);
    cuMemFree_v2 = "cuMemFree" 3020..NOW Legacy (pointer: Addr);
    cuMemAlloc = "cuMemAlloc" 2000..3020 Legacy (pointer: Out<'_, u32>, bytes: u32);
    cuMemAllocPitch = "cuMemAllocPitch" 2000..3020 Legacy
        (pointer: Out<'_, u32>, pitch: Out<'_, u32>, width: u32, height: u32, element: u32);
    cuMemFree = "cuMemFree" 2000..3020 Legacy (pointer: Private<u32>);
    cuMemGetInfo = "cuMemGetInfo" 2000..3020 Legacy (free: Out<'_, u32>, total: Out<'_, u32>);
    cuMemGetAddressRange = "cuMemGetAddressRange" 2000..3020 Legacy
        (base: Out<'_, u32>, bytes: Out<'_, u32>, pointer: u32);
    cuMemGetAddressRange_v2 = "cuMemGetAddressRange" 3020..NOW Legacy
        (base: Out<'_, Addr>, bytes: Out<'_, usize>, pointer: Addr);
    cuMemAdvise = "cuMemAdvise" 8000..12020 Legacy
        (pointer: Addr, bytes: usize, advice: u32, to: i32);
    cuMemPrefetchAsync = "cuMemPrefetchAsync" 8000..12020 Legacy
        (pointer: Addr, bytes: usize, to: i32, stream: usize);
    cuPointerGetAttribute = "cuPointerGetAttribute" 4000..NOW Legacy
        (data: Out<'_, i32>, attribute: u32, pointer: Addr);

    cuMemAllocHost_v2 = "cuMemAllocHost" 3020..NOW Legacy (pointer: Out<'_, Made>, bytes: usize);
    cuMemHostAlloc = "cuMemHostAlloc" 2020..NOW Legacy
        (pointer: Out<'_, Made>, bytes: usize, flags: u32);
    cuMemFreeHost = "cuMemFreeHost" 2000..NOW Legacy (pointer: Addr);
    cuMemHostRegister_v2 = "cuMemHostRegister" 6050..NOW Legacy
        (pointer: Addr, bytes: usize, flags: u32);
    cuMemHostUnregister = "cuMemHostUnregister" 4000..NOW Legacy (pointer: Addr);
    cuMemAllocHost = "cuMemAllocHost" 2000..3020 Legacy (pointer: Out<'_, Made>, bytes: u32);
    cuMemHostRegister = "cuMemHostRegister" 4000..6050 Legacy
        (pointer: Addr, bytes: usize, flags: u32);
    cuMemHostGetDevicePointer_v2 = "cuMemHostGetDevicePointer" 3020..NOW Legacy
        (device: Out<'_, Addr>, pointer: Addr, flags: u32);
    cuMemHostGetFlags = "cuMemHostGetFlags" 2030..NOW Legacy (flags: Out<'_, u32>, pointer: Addr);

    cuMemAllocAsync = "cuMemAllocAsync" 11020..NOW Legacy
        (pointer: Out<'_, Made>, bytes: usize, stream: usize);
    cuMemAllocAsync_ptsz = "cuMemAllocAsync" 11020..NOW PerThread
        (pointer: Out<'_, Made>, bytes: usize, stream: usize);
    cuMemAllocFromPoolAsync = "cuMemAllocFromPoolAsync" 11020..NOW Legacy
        (pointer: Out<'_, Made>, bytes: usize, pool: usize, stream: usize);
    cuMemAllocFromPoolAsync_ptsz = "cuMemAllocFromPoolAsync" 11020..NOW PerThread
        (pointer: Out<'_, Made>, bytes: usize, pool: usize, stream: usize);
    cuMemFreeAsync = "cuMemFreeAsync" 11020..NOW Legacy (pointer: Addr, stream: usize);
    cuMemFreeAsync_ptsz = "cuMemFreeAsync" 11020..NOW PerThread (pointer: Addr, stream: usize);
    cuMemPoolCreate = "cuMemPoolCreate" 11020..NOW Legacy
        (pool: Out<'_, usize>, properties: In<'_, CuMemPoolProps>);
    cuMemPoolDestroy = "cuMemPoolDestroy" 11020..NOW Legacy (pool: usize);
    cuMemPoolTrimTo = "cuMemPoolTrimTo" 11020..NOW Legacy (pool: usize, keep: usize);
    cuMemPoolSetAttribute = "cuMemPoolSetAttribute" 11020..NOW Legacy
        (pool: usize, attribute: u32, value: In<'_, u64>);
    cuMemPoolGetAttribute = "cuMemPoolGetAttribute" 11020..NOW Legacy
        (pool: usize, attribute: u32, value: Out<'_, u64>);
    cuDeviceGetDefaultMemPool = "cuDeviceGetDefaultMemPool" 11020..NOW Legacy
        (pool: Out<'_, usize>, device: i32);
    cuDeviceGetMemPool = "cuDeviceGetMemPool" 11020..NOW Legacy
        (pool: Out<'_, usize>, device: i32);
    cuDeviceSetMemPool = "cuDeviceSetMemPool" 11020..NOW Legacy (device: i32, pool: usize);
    cuMemGetMemPool = "cuMemGetMemPool" 13000..NOW Legacy
        (pool: Out<'_, usize>, location: In<'_, CuMemLocation>, kind: u32);
    cuMemSetMemPool = "cuMemSetMemPool" 13000..NOW Legacy
        (location: In<'_, CuMemLocation>, kind: u32, pool: usize);
    cuMemGetDefaultMemPool = "cuMemGetDefaultMemPool" 13000..NOW Legacy
        (pool: Out<'_, usize>, location: In<'_, CuMemLocation>, kind: u32);
    cuMemPoolExportToShareableHandle = "cuMemPoolExportToShareableHandle" 11020..NOW Legacy
        (shared: Out<'_, Private<usize>>, pool: usize, kind: u32, flags: u64);
    cuMemPoolImportFromShareableHandle = "cuMemPoolImportFromShareableHandle" 11020..NOW Legacy
        (pool: Out<'_, usize>, shared: Private<usize>, kind: u32, flags: u64);

    cuStreamCreate = "cuStreamCreate" 2000..NOW Legacy (stream: Out<'_, usize>, flags: u32);
    cuStreamDestroy_v2 = "cuStreamDestroy" 4000..NOW Legacy (stream: usize);
    cuStreamSynchronize = "cuStreamSynchronize" 2000..NOW Legacy (stream: usize);
    cuStreamSynchronize_ptsz = "cuStreamSynchronize" 7000..NOW PerThread (stream: usize);
    cuEventCreate = "cuEventCreate" 2000..NOW Legacy (event: Out<'_, usize>, flags: u32);
    cuEventRecord = "cuEventRecord" 2000..NOW Legacy (event: usize, stream: usize);
    cuEventSynchronize = "cuEventSynchronize" 2000..NOW Legacy (event: usize);
    cuEventDestroy_v2 = "cuEventDestroy" 4000..NOW Legacy (event: usize);

    cuMemAddressReserve = "cuMemAddressReserve" 10020..NOW Legacy
        (pointer: Out<'_, Made>, bytes: usize, align: usize, hint: Addr, flags: u64);
    cuMemAddressFree = "cuMemAddressFree" 10020..NOW Legacy (pointer: Addr, bytes: usize);
    cuMemCreate = "cuMemCreate" 10020..NOW Legacy
        (handle: Out<'_, u64>, bytes: usize, properties: In<'_, CuMemAllocationProp>, flags: u64);
    cuMemRelease = "cuMemRelease" 10020..NOW Legacy (handle: u64);
    cuMemRetainAllocationHandle = "cuMemRetainAllocationHandle" 11000..NOW Legacy
        (handle: Out<'_, u64>, address: Addr);
    cuMemMap = "cuMemMap" 10020..NOW Legacy
        (pointer: Addr, bytes: usize, offset: usize, handle: u64, flags: u64);
    cuMemUnmap = "cuMemUnmap" 10020..NOW Legacy (pointer: Addr, bytes: usize);
    cuMemSetAccess = "cuMemSetAccess" 10020..NOW Legacy
        (pointer: Addr, bytes: usize, access: In<'_, CuMemAccessDesc>, count: usize);
    cuMemGetAllocationGranularity = "cuMemGetAllocationGranularity" 10020..NOW Legacy
        (granularity: Out<'_, usize>, properties: In<'_, CuMemAllocationProp>, option: u32);
    cuMemExportToShareableHandle = "cuMemExportToShareableHandle" 10020..NOW Legacy
        (shared: Out<'_, Private<i32>>, handle: u64, kind: u32, flags: u64);
    cuMemImportFromShareableHandle = "cuMemImportFromShareableHandle" 10020..NOW Legacy
        (handle: Out<'_, u64>, shared: Private<usize>, kind: u32);

    cuArrayCreate_v2 = "cuArrayCreate" 3020..NOW Legacy
        (array: Out<'_, usize>, descriptor: In<'_, CuArrayDescriptor>);
    cuArray3DCreate_v2 = "cuArray3DCreate" 3020..NOW Legacy
        (array: Out<'_, usize>, descriptor: In<'_, CuArray3dDescriptor>);
    cuArrayDestroy = "cuArrayDestroy" 2000..NOW Legacy (array: usize);
    cuArrayCreate = "cuArrayCreate" 2000..3020 Legacy
        (array: Out<'_, usize>, descriptor: In<'_, CuArrayDescriptorV1>);
    cuArray3DCreate = "cuArray3DCreate" 2000..3020 Legacy
        (array: Out<'_, usize>, descriptor: In<'_, CuArray3dDescriptorV1>);
    cuArrayGetMemoryRequirements = "cuArrayGetMemoryRequirements" 11060..NOW Legacy
        (requirements: Out<'_, [u64; 4]>, array: usize, device: i32);
    cuMipmappedArrayCreate = "cuMipmappedArrayCreate" 5000..NOW Legacy
        (array: Out<'_, usize>, descriptor: In<'_, CuArray3dDescriptor>, levels: u32);
    cuMipmappedArrayDestroy = "cuMipmappedArrayDestroy" 5000..NOW Legacy (array: usize);
    cuMipmappedArrayGetLevel = "cuMipmappedArrayGetLevel" 5000..NOW Legacy
        (array: Out<'_, usize>, mipmapped: usize, level: u32);
    cuMipmappedArrayGetMemoryRequirements = "cuMipmappedArrayGetMemoryRequirements" 11060..NOW Legacy
        (requirements: Out<'_, [u64; 4]>, array: usize, device: i32);

    cuIpcGetMemHandle = "cuIpcGetMemHandle" 4010..NOW Legacy
        (handle: Out<'_, CuIpcMemHandle>, pointer: Addr);
    cuIpcOpenMemHandle_v2 = "cuIpcOpenMemHandle" 11000..NOW Legacy
        (pointer: Out<'_, Private<usize>>, handle: CuIpcMemHandle, flags: u32);
    cuIpcOpenMemHandle = "cuIpcOpenMemHandle" 4010..11000 Legacy
        (pointer: Out<'_, Private<usize>>, handle: CuIpcMemHandle, flags: u32);
    cuIpcCloseMemHandle = "cuIpcCloseMemHandle" 4010..NOW Legacy (pointer: Private<usize>);

    cuModuleLoadData = "cuModuleLoadData" 2000..NOW Legacy
        (module: Out<'_, usize>, image: Private<usize>);
    cuModuleLoadDataEx = "cuModuleLoadDataEx" 2010..NOW Legacy
        (module: Out<'_, usize>, image: Private<usize>, options: u32, names: usize, values: usize);
    cuModuleLoadFatBinary = "cuModuleLoadFatBinary" 2000..NOW Legacy
        (module: Out<'_, usize>, image: Private<usize>);
    cuModuleLoad = "cuModuleLoad" 2000..NOW Legacy (module: Out<'_, usize>, path: Private<usize>);
    cuModuleUnload = "cuModuleUnload" 2000..NOW Legacy (module: usize);
    cuModuleGetFunction = "cuModuleGetFunction" 2000..NOW Legacy
        (function: Out<'_, usize>, module: usize, name: Private<usize>);
    cuModuleGetGlobal_v2 = "cuModuleGetGlobal" 3020..NOW Legacy
        (pointer: Out<'_, Made>, bytes: Out<'_, usize>, module: usize, name: Private<usize>);
    cuLibraryLoadData = "cuLibraryLoadData" 12000..NOW Legacy
        (library: Out<'_, usize>, image: Private<usize>, options: usize, values: usize, count: u32,
         library_options: usize, library_values: usize, library_count: u32);
    cuLibraryLoadFromFile = "cuLibraryLoadFromFile" 12000..NOW Legacy
        (library: Out<'_, usize>, path: Private<usize>, options: usize, values: usize, count: u32,
         library_options: usize, library_values: usize, library_count: u32);
    cuLibraryUnload = "cuLibraryUnload" 12000..NOW Legacy (library: usize);
    cuLibraryGetKernel = "cuLibraryGetKernel" 12000..NOW Legacy
        (kernel: Out<'_, usize>, library: usize, name: Private<usize>);
    cuLibraryGetModule = "cuLibraryGetModule" 12000..NOW Legacy
        (module: Out<'_, usize>, library: usize);
    cuKernelGetFunction = "cuKernelGetFunction" 12000..NOW Legacy
        (function: Out<'_, usize>, kernel: usize);
    cuLibraryGetGlobal = "cuLibraryGetGlobal" 12000..NOW Legacy
        (pointer: Out<'_, Made>, bytes: Out<'_, usize>, library: usize, name: Private<usize>);
    cuLibraryGetManaged = "cuLibraryGetManaged" 12000..NOW Legacy
        (pointer: Out<'_, Made>, bytes: Out<'_, usize>, library: usize, name: Private<usize>);
    cuFuncLoad = "cuFuncLoad" 12040..NOW Legacy (function: usize);
    cuLaunchKernelEx = "cuLaunchKernelEx" 11060..NOW Legacy
        (config: In<'_, LaunchConfig>, function: usize, parameters: usize, extra: usize);
    cuLaunchKernelEx_ptsz = "cuLaunchKernelEx" 11060..NOW PerThread
        (config: In<'_, LaunchConfig>, function: usize, parameters: usize, extra: usize);
    cuLaunchCooperativeKernel = "cuLaunchCooperativeKernel" 9000..NOW Legacy
        (function: usize, grid_x: u32, grid_y: u32, grid_z: u32, block_x: u32, block_y: u32,
         block_z: u32, shared: u32, stream: usize, parameters: usize);
    cuLaunchCooperativeKernel_ptsz = "cuLaunchCooperativeKernel" 9000..NOW PerThread
        (function: usize, grid_x: u32, grid_y: u32, grid_z: u32, block_x: u32, block_y: u32,
         block_z: u32, shared: u32, stream: usize, parameters: usize);
    cuLaunchKernel = "cuLaunchKernel" 4000..NOW Legacy
        (function: usize, grid_x: u32, grid_y: u32, grid_z: u32, block_x: u32, block_y: u32,
         block_z: u32, shared: u32, stream: usize, parameters: usize, extra: usize);
    cuLaunchKernel_ptsz = "cuLaunchKernel" 7000..NOW PerThread
        (function: usize, grid_x: u32, grid_y: u32, grid_z: u32, block_x: u32, block_y: u32,
         block_z: u32, shared: u32, stream: usize, parameters: usize, extra: usize);

    cuGraphCreate = "cuGraphCreate" 10000..NOW Legacy (graph: Out<'_, usize>, flags: u32);
    cuGraphDestroy = "cuGraphDestroy" 10000..NOW Legacy (graph: usize);
    cuGraphAddMemAllocNode = "cuGraphAddMemAllocNode" 11040..NOW Legacy
        (node: Out<'_, usize>, graph: usize, after: In<'_, usize>, count: usize,
         parameters: Out<'_, CuMemAllocNodeParams>);
    cuGraphAddMemFreeNode = "cuGraphAddMemFreeNode" 11040..NOW Legacy
        (node: Out<'_, usize>, graph: usize, after: In<'_, usize>, count: usize, pointer: Addr);
    cuGraphInstantiateWithFlags = "cuGraphInstantiateWithFlags" 11040..NOW Legacy
        (executable: Out<'_, usize>, graph: usize, flags: u64);
    cuGraphInstantiate_v2 = "cuGraphInstantiate" 11000..12000 Legacy
        (executable: Out<'_, usize>, graph: usize, error: usize, log: usize, room: usize);
    cuGraphExecDestroy = "cuGraphExecDestroy" 10000..NOW Legacy (executable: usize);
    cuGraphUpload = "cuGraphUpload" 11010..NOW Legacy (executable: usize, stream: usize);
    cuGraphLaunch = "cuGraphLaunch" 10000..NOW Legacy (executable: usize, stream: usize);
    cuGraphLaunch_ptsz = "cuGraphLaunch" 10000..NOW PerThread (executable: usize, stream: usize);
    cuStreamBeginCapture_v2 = "cuStreamBeginCapture" 10010..NOW Legacy (stream: usize, mode: u32);
    cuStreamEndCapture = "cuStreamEndCapture" 10000..NOW Legacy
        (stream: usize, graph: Out<'_, usize>);
    cuDeviceGraphMemTrim = "cuDeviceGraphMemTrim" 11040..NOW Legacy (device: i32);
    cuDeviceGetGraphMemAttribute = "cuDeviceGetGraphMemAttribute" 11040..NOW Legacy
        (device: i32, attribute: u32, value: Out<'_, u64>);

    cuMulticastCreate = "cuMulticastCreate" 12010..NOW Legacy
        (handle: Out<'_, u64>, properties: In<'_, CuMulticastObjectProp>);
    cuMulticastAddDevice = "cuMulticastAddDevice" 12010..NOW Legacy (handle: u64, device: i32);
    cuMulticastBindMem = "cuMulticastBindMem" 12010..13010 Legacy
        (handle: u64, offset: usize, memory: u64, memory_offset: usize, bytes: usize, flags: u64);
    cuMulticastBindMem_v2 = "cuMulticastBindMem" 13010..NOW Legacy
        (handle: u64, device: i32, offset: usize, memory: u64, memory_offset: usize, bytes: usize,
         flags: u64);
    cuMulticastBindAddr = "cuMulticastBindAddr" 12010..13010 Legacy
        (handle: u64, offset: usize, pointer: Addr, bytes: usize, flags: u64);
    cuMulticastBindAddr_v2 = "cuMulticastBindAddr" 13010..NOW Legacy
        (handle: u64, device: i32, offset: usize, pointer: Addr, bytes: usize, flags: u64);
    cuMulticastUnbind = "cuMulticastUnbind" 12010..NOW Legacy
        (handle: u64, device: i32, offset: usize, bytes: usize);
    cuImportExternalMemory = "cuImportExternalMemory" 10000..NOW Legacy
        (memory: Out<'_, usize>, descriptor: In<'_, CuExternalMemoryHandleDesc>);
    cuExternalMemoryGetMappedBuffer = "cuExternalMemoryGetMappedBuffer" 10000..NOW Legacy
        (pointer: Out<'_, Made>, memory: usize, descriptor: In<'_, CuExternalMemoryBufferDesc>);
    cuExternalMemoryGetMappedMipmappedArray = "cuExternalMemoryGetMappedMipmappedArray" 10000..NOW Legacy
        (array: Out<'_, usize>, memory: usize,
         descriptor: In<'_, CuExternalMemoryMipmappedArrayDesc>);
    cuDestroyExternalMemory = "cuDestroyExternalMemory" 10000..NOW Legacy (memory: usize);

    cuGraphAddNode = "cuGraphAddNode" 12020..12030 Legacy
        (node: Out<'_, usize>, graph: usize, after: In<'_, usize>, count: usize,
         parameters: Out<'_, CuGraphNodeParams>);
    cuGraphAddNode_v2 = "cuGraphAddNode" 12030..13040 Legacy
        (node: Out<'_, usize>, graph: usize, after: In<'_, usize>, edges: usize, count: usize,
         parameters: Out<'_, CuGraphNodeParams>);
    cuGraphAddNode_v3 = "cuGraphAddNode" 13040..NOW Legacy
        (node: Out<'_, usize>, graph: usize, after: In<'_, usize>, edges: usize, count: usize,
         parameters: Out<'_, CuGraphNodeParams>);
    cuGraphAddEmptyNode = "cuGraphAddEmptyNode" 10000..NOW Legacy
        (node: Out<'_, usize>, graph: usize, after: In<'_, usize>, count: usize);
    cuGraphAddChildGraphNode = "cuGraphAddChildGraphNode" 10000..NOW Legacy
        (node: Out<'_, usize>, graph: usize, after: In<'_, usize>, count: usize, child: usize);
    cuGraphAddDependencies = "cuGraphAddDependencies" 10000..12030 Legacy
        (graph: usize, from: In<'_, usize>, to: In<'_, usize>, count: usize);
    cuGraphMemAllocNodeGetParams = "cuGraphMemAllocNodeGetParams" 11040..NOW Legacy
        (node: usize, parameters: Out<'_, CuMemAllocNodeParams>);
    cuGraphMemFreeNodeGetParams = "cuGraphMemFreeNodeGetParams" 11040..NOW Legacy
        (node: usize, pointer: Out<'_, Addr>);
    cuGraphDestroyNode = "cuGraphDestroyNode" 10000..NOW Legacy (node: usize);
    cuGraphClone = "cuGraphClone" 10000..NOW Legacy (clone: Out<'_, usize>, graph: usize);
    cuGraphInstantiate = "cuGraphInstantiate" 10000..11000 Legacy
        (executable: Out<'_, usize>, graph: usize, error: usize, log: usize, room: usize);
    cuGraphInstantiateWithParams = "cuGraphInstantiateWithParams" 12000..NOW Legacy
        (executable: Out<'_, usize>, graph: usize, parameters: Out<'_, CuGraphInstantiateParams>);
    cuGraphInstantiateWithParams_ptsz = "cuGraphInstantiateWithParams" 12000..NOW PerThread
        (executable: Out<'_, usize>, graph: usize, parameters: Out<'_, CuGraphInstantiateParams>);
    cuGraphExecUpdate = "cuGraphExecUpdate" 10020..12000 Legacy
        (executable: usize, graph: usize, node: Out<'_, usize>, result: Out<'_, u32>);
    cuGraphExecUpdate_v2 = "cuGraphExecUpdate" 12000..NOW Legacy
        (executable: usize, graph: usize, result: Out<'_, Updated>);
    cuGraphUpload_ptsz = "cuGraphUpload" 11010..NOW PerThread (executable: usize, stream: usize);
    cuDeviceSetGraphMemAttribute = "cuDeviceSetGraphMemAttribute" 11040..NOW Legacy
        (device: i32, attribute: u32, value: In<'_, u64>);
    cuStreamBeginCapture = "cuStreamBeginCapture" 10000..10010 Legacy (stream: usize);
    cuStreamBeginCapture_ptsz = "cuStreamBeginCapture" 10000..10010 PerThread (stream: usize);
    cuStreamBeginCapture_v2_ptsz = "cuStreamBeginCapture" 10010..NOW PerThread
        (stream: usize, mode: u32);
    cuStreamBeginCaptureToGraph = "cuStreamBeginCaptureToGraph" 12030..NOW Legacy
        (stream: usize, graph: usize, after: In<'_, usize>, edges: usize, count: usize, mode: u32);
    cuStreamBeginCaptureToGraph_ptsz = "cuStreamBeginCaptureToGraph" 12030..NOW PerThread
        (stream: usize, graph: usize, after: In<'_, usize>, edges: usize, count: usize, mode: u32);
    cuStreamEndCapture_ptsz = "cuStreamEndCapture" 10000..NOW PerThread
        (stream: usize, graph: Out<'_, usize>);
    cuStreamIsCapturing = "cuStreamIsCapturing" 10000..NOW Legacy
        (stream: usize, status: Out<'_, u32>);
    cuStreamIsCapturing_ptsz = "cuStreamIsCapturing" 10000..NOW PerThread
        (stream: usize, status: Out<'_, u32>);
    cuThreadExchangeStreamCaptureMode = "cuThreadExchangeStreamCaptureMode" 10010..NOW Legacy
        (mode: Out<'_, u32>);

    cuMemPoolExportPointer = "cuMemPoolExportPointer" 11020..NOW Legacy
        (data: Out<'_, Private<[u8; 64]>>, pointer: Addr);
    cuMemPoolImportPointer = "cuMemPoolImportPointer" 11020..NOW Legacy
        (pointer: Out<'_, Made>, pool: usize, data: In<'_, Private<[u8; 64]>>);

    cudaSetDevice = "" 0..NOW Legacy (device: i32);
    cudaMalloc = "" 0..NOW Legacy (pointer: Out<'_, Made>, bytes: usize);
    cudaMallocPitch = "" 0..NOW Legacy
        (pointer: Out<'_, Made>, pitch: Out<'_, usize>, width: usize, height: usize);
    cudaMallocManaged = "" 0..NOW Legacy (pointer: Out<'_, Made>, bytes: usize, flags: u32);
    cudaFree = "" 0..NOW Legacy (pointer: Addr);
    cudaMallocHost = "" 0..NOW Legacy (pointer: Out<'_, Made>, bytes: usize);
    cudaHostAlloc = "" 0..NOW Legacy (pointer: Out<'_, Made>, bytes: usize, flags: u32);
    cudaFreeHost = "" 0..NOW Legacy (pointer: Addr);
    cudaMallocAsync = "" 0..NOW Legacy (pointer: Out<'_, Made>, bytes: usize, stream: usize);
    cudaMallocAsync_ptsz = "" 0..NOW Legacy
        (pointer: Out<'_, Made>, bytes: usize, stream: usize);
    cudaFreeAsync = "" 0..NOW Legacy (pointer: Addr, stream: usize);
    cudaDeviceSynchronize = "" 0..NOW Legacy ();
    }};
}
pub(crate) use rows;
