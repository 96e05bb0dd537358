//! Devices, versions, limits, peers, profilers.

use super::exports;
use crate::properties::Properties;
use crate::{context, device, entry, memory, properties};
use gpumem_cuda_abi::CuProcAddressStatus;
use gpumem_sim_client::cu;
use gpumem_sim_client::ffi::{Address, Handle, In, Out, Text};

exports! {
    nothing cudaDriverGetVersion (version: Out<i32>) = device::driver_version;
    nothing cudaRuntimeGetVersion (version: Out<i32>) = device::runtime_version;
    nothing cudaGetDeviceCount (count: Out<i32>) = device::count;
    driver cudaGetDevice (device: Out<i32>) = device::get;
    driver cudaSetDevice (device: i32) = context::set_device;
    driver cudaInitDevice (device: i32, device_flags: u32, flags: u32) = context::initialise_device;
    driver cudaDeviceReset () = context::reset;
    driver cudaChooseDevice (device: Out<i32>, wanted: Address) = device::choose;
    driver cudaSetValidDevices (list: In<i32>, length: i32) = device::set_valid;
    driver cudaGetDeviceFlags (flags: Out<u32>) = device::get_flags;
    driver cudaSetDeviceFlags (flags: u32) = device::set_flags;
    driver cudaGetDeviceProperties (properties: Out<Properties>, device: i32) = properties::get;
    driver cudaDeviceGetAttribute (value: Out<i32>, attribute: u32, device: i32) = device::attribute;
    driver cudaDeviceGetP2PAttribute (value: Out<i32>, attribute: u32, from: i32, to: i32) = cu::cuDeviceGetP2PAttribute;
    driver cudaDeviceGetByPCIBusId (device: Out<i32>, id: Text) = cu::cuDeviceGetByPCIBusId;
    driver cudaDeviceGetPCIBusId (text: Address, room: i32, device: i32) = device::pci_bus_id;
    driver cudaDeviceCanAccessPeer (can: Out<i32>, device: i32, peer: i32) = device::can_access_peer;
    context cudaDeviceEnablePeerAccess (peer: i32, flags: u32) = memory::enable_peer_access;
    context cudaDeviceDisablePeerAccess (peer: i32) = memory::disable_peer_access;
    context cudaDeviceSynchronize () = cu::cuCtxSynchronize;
    context cudaDeviceGetLimit (value: Out<usize>, limit: u32) = cu::cuCtxGetLimit;
    context cudaDeviceSetLimit (limit: u32, value: usize) = cu::cuCtxSetLimit;
    context cudaDeviceGetCacheConfig (config: Out<u32>) = cu::cuCtxGetCacheConfig;
    context cudaDeviceSetCacheConfig (config: u32) = cu::cuCtxSetCacheConfig;
    context cudaDeviceGetSharedMemConfig (config: Out<u32>) = cu::cuCtxGetSharedMemConfig;
    context cudaDeviceSetSharedMemConfig (config: u32) = cu::cuCtxSetSharedMemConfig;
    context cudaDeviceGetStreamPriorityRange (least: Out<i32>, greatest: Out<i32>) = cu::cuCtxGetStreamPriorityRange;
    context cudaDeviceFlushGPUDirectRDMAWrites (target: u32, scope: u32) = cu::cuFlushGPUDirectRDMAWrites;
    context cudaCtxResetPersistingL2Cache () = cu::cuCtxResetPersistingL2Cache;
    context cudaProfilerStart () = cu::cuProfilerStart;
    context cudaProfilerStop () = cu::cuProfilerStop;
    driver cudaGetDriverEntryPoint (name: Text, function: Out<Address>, flags: u64, status: Out<CuProcAddressStatus>) = entry::newest;
    driver cudaGetDriverEntryPoint_ptsz (name: Text, function: Out<Address>, flags: u64, status: Out<CuProcAddressStatus>) = entry::newest_per_thread;
    driver cudaGetDriverEntryPointByVersion (name: Text, function: Out<Address>, version: u32, flags: u64, status: Out<CuProcAddressStatus>) = entry::by_version;
    driver cudaGetDriverEntryPointByVersion_ptsz (name: Text, function: Out<Address>, version: u32, flags: u64, status: Out<CuProcAddressStatus>) = entry::by_version_per_thread;
    nothing cudaGetExportTable (table: Out<Address>, id: Address) = device::export_table;
    driver cudaDeviceGetDefaultMemPool (pool: Out<Handle>, device: i32) = cu::cuDeviceGetDefaultMemPool;
    driver cudaDeviceSetMemPool (device: i32, pool: Handle) = cu::cuDeviceSetMemPool;
    driver cudaDeviceGetMemPool (pool: Out<Handle>, device: i32) = cu::cuDeviceGetMemPool;
    driver cudaDeviceGraphMemTrim (device: i32) = cu::cuDeviceGraphMemTrim;
    driver cudaDeviceGetGraphMemAttribute (device: i32, attribute: u32, value: Address) = cu::cuDeviceGetGraphMemAttribute;
    driver cudaDeviceSetGraphMemAttribute (device: i32, attribute: u32, value: Address) = cu::cuDeviceSetGraphMemAttribute;
}
