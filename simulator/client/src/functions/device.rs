//! Start, devices, contexts.

use super::functions;
use crate::ffi::{Address, Handle, Out, Text};
use gpumem_cuda_abi::CuUuid;

functions! { super::DEVICE;
    cuInit 2000 (flags: u32);
    cuDriverGetVersion 2020 (version: Out<i32>);
    cuDeviceGet 2000 (device: Out<i32>, ordinal: i32);
    cuDeviceGetCount 2000 (count: Out<i32>);
    cuDeviceGetName 2000 (name: Address, room: i32, device: i32);
    cuDeviceTotalMem 3020 (bytes: Out<usize>, device: i32);
    cuDeviceGetAttribute 2000 (value: Out<i32>, attribute: u32, device: i32);
    cuDeviceGetP2PAttribute 8000 (value: Out<i32>, attribute: u32, from: i32, to: i32);
    cuDeviceGetByPCIBusId 4010 (device: Out<i32>, id: Text);
    cuDeviceGetPCIBusId 4010 (id: Address, room: i32, device: i32);
    cuDeviceGetUuid 11040 (uuid: Out<CuUuid>, device: i32);
    cuDeviceGetTexture1DLinearMaxWidth 11010 (width: Out<usize>, format: u32, channels: u32, device: i32);
    cuDeviceGetDefaultMemPool 11020 (pool: Out<Handle>, device: i32);
    cuDeviceSetMemPool 11020 (device: i32, pool: Handle);
    cuDeviceGetMemPool 11020 (pool: Out<Handle>, device: i32);
    cuDeviceCanAccessPeer 4000 (can: Out<i32>, device: i32, peer: i32);
    cuFlushGPUDirectRDMAWrites 11030 (target: u32, scope: u32);
    cuDevicePrimaryCtxRetain 7000 (context: Out<Handle>, device: i32);
    cuDevicePrimaryCtxSetFlags 11000 (device: i32, flags: u32);
    cuDevicePrimaryCtxGetState 7000 (device: i32, flags: Out<u32>, active: Out<i32>);
    cuDevicePrimaryCtxReset 7000 (device: i32);
    cuCtxSetCurrent 4000 (context: Handle);
    cuCtxGetCurrent 4000 (context: Out<Handle>);
    cuCtxGetDevice 2000 (device: Out<i32>);
    cuCtxGetLimit 3010 (value: Out<usize>, limit: u32);
    cuCtxSetLimit 3010 (limit: u32, value: usize);
    cuCtxGetCacheConfig 3020 (config: Out<u32>);
    cuCtxSetCacheConfig 3020 (config: u32);
    cuCtxGetSharedMemConfig 4020 (config: Out<u32>);
    cuCtxSetSharedMemConfig 4020 (config: u32);
    cuCtxGetStreamPriorityRange 5050 (least: Out<i32>, greatest: Out<i32>);
    cuCtxSynchronize 2000 ();
    cuCtxResetPersistingL2Cache 11000 ();
    cuCtxEnablePeerAccess 4000 (peer: Handle, flags: u32);
    cuCtxDisablePeerAccess 4000 (peer: Handle);
    cuProfilerStart 4000 ();
    cuProfilerStop 4000 ();
}
