//! `cudaGetDeviceProperties`: CUDA 13's structure, filled from the driver's attributes.

use crate::context;
use gpumem_cuda_abi::CuUuid;
use gpumem_sim_client::cu;
use gpumem_sim_client::ffi::{Answer, Out, require};

/// Defines the structure and the function that fills it. A row is a field, its type, and the
/// driver's attribute (`CUdevice_attribute`) or attributes that it contains.
macro_rules! properties {
    ($($field:ident: $kind:ty = $attribute:expr;)*) => {
        /// `cudaDeviceProp` of CUDA 13: 1008 bytes.
        #[repr(C)]
        #[derive(Clone, Copy)]
        pub struct Properties {
            name: [u8; 256],
            uuid: CuUuid,
            luid: [u8; 8],
            luid_device_node_mask: u32,
            total_global_mem: usize,
            $($field: $kind,)*
            reserved: [i32; 56],
        }

        impl Properties {
            fn read(name: [u8; 256], uuid: CuUuid, total_global_mem: usize, device: i32) -> Self {
                Self {
                    name,
                    uuid,
                    luid: [0; 8],
                    luid_device_node_mask: 0,
                    total_global_mem,
                    $($field: Shown::of($attribute, device),)*
                    reserved: [0; 56],
                }
            }
        }
    };
}

properties! {
    shared_mem_per_block: usize = 8;
    regs_per_block: i32 = 12;
    warp_size: i32 = 10;
    mem_pitch: usize = 11;
    max_threads_per_block: i32 = 1;
    max_threads_dim: [i32; 3] = [2, 3, 4];
    max_grid_size: [i32; 3] = [5, 6, 7];
    total_const_mem: usize = 9;
    major: i32 = 75;
    minor: i32 = 76;
    texture_alignment: usize = 14;
    texture_pitch_alignment: usize = 51;
    multi_processor_count: i32 = 16;
    integrated: i32 = 18;
    can_map_host_memory: i32 = 19;
    max_texture1d: i32 = 21;
    max_texture1d_mipmap: i32 = 77;
    max_texture2d: [i32; 2] = [22, 23];
    max_texture2d_mipmap: [i32; 2] = [73, 74];
    max_texture2d_linear: [i32; 3] = [70, 71, 72];
    max_texture2d_gather: [i32; 2] = [45, 46];
    max_texture3d: [i32; 3] = [24, 25, 26];
    max_texture3d_alt: [i32; 3] = [47, 48, 49];
    max_texture_cubemap: i32 = 52;
    max_texture1d_layered: [i32; 2] = [42, 43];
    max_texture2d_layered: [i32; 3] = [27, 28, 29];
    max_texture_cubemap_layered: [i32; 2] = [53, 54];
    max_surface1d: i32 = 55;
    max_surface2d: [i32; 2] = [56, 57];
    max_surface3d: [i32; 3] = [58, 59, 60];
    max_surface1d_layered: [i32; 2] = [61, 62];
    max_surface2d_layered: [i32; 3] = [63, 64, 65];
    max_surface_cubemap: i32 = 66;
    max_surface_cubemap_layered: [i32; 2] = [67, 68];
    surface_alignment: usize = 30;
    concurrent_kernels: i32 = 31;
    ecc_enabled: i32 = 32;
    pci_bus_id: i32 = 33;
    pci_device_id: i32 = 34;
    pci_domain_id: i32 = 50;
    tcc_driver: i32 = 35;
    async_engine_count: i32 = 40;
    unified_addressing: i32 = 41;
    memory_bus_width: i32 = 37;
    l2_cache_size: i32 = 38;
    persisting_l2_cache_max_size: i32 = 108;
    max_threads_per_multi_processor: i32 = 39;
    stream_priorities_supported: i32 = 78;
    global_l1_cache_supported: i32 = 79;
    local_l1_cache_supported: i32 = 80;
    shared_mem_per_multiprocessor: usize = 81;
    regs_per_multiprocessor: i32 = 82;
    managed_memory: i32 = 83;
    is_multi_gpu_board: i32 = 84;
    multi_gpu_board_group_id: i32 = 85;
    host_native_atomic_supported: i32 = 86;
    pageable_memory_access: i32 = 88;
    concurrent_managed_access: i32 = 89;
    compute_preemption_supported: i32 = 90;
    can_use_host_pointer_for_registered_mem: i32 = 91;
    cooperative_launch: i32 = 95;
    shared_mem_per_block_optin: usize = 97;
    pageable_memory_access_uses_host_page_tables: i32 = 100;
    direct_managed_mem_access_from_host: i32 = 101;
    max_blocks_per_multi_processor: i32 = 106;
    access_policy_max_window_size: i32 = 109;
    reserved_shared_mem_per_block: usize = 111;
    host_register_supported: i32 = 99;
    sparse_cuda_array_supported: i32 = 112;
    host_register_read_only_supported: i32 = 113;
    timeline_semaphore_interop_supported: i32 = 114;
    memory_pools_supported: i32 = 115;
    gpu_direct_rdma_supported: i32 = 116;
    gpu_direct_rdma_flush_writes_options: u32 = 117;
    gpu_direct_rdma_writes_ordering: i32 = 118;
    memory_pool_supported_handle_types: u32 = 119;
    deferred_mapping_cuda_array_supported: i32 = 121;
    ipc_event_supported: i32 = 125;
    cluster_launch: i32 = 120;
    unified_function_pointers: i32 = 129;
    device_numa_config: i32 = 130;
    device_numa_id: i32 = 131;
    mps_enabled: i32 = 133;
    host_numa_id: i32 = 134;
    gpu_pci_device_id: u32 = 139;
    gpu_pci_subsystem_id: u32 = 140;
    host_numa_multinode_ipc_supported: i32 = 143;
}

/// A field that contains attributes.
trait Shown<A> {
    /// Its value; 0 for an attribute that the driver does not know.
    fn of(attribute: A, device: i32) -> Self;
}

fn attribute(attribute: u32, device: i32) -> i32 {
    let mut value = 0;
    match cu::cuDeviceGetAttribute(Out::to(&mut value), attribute, device) {
        Ok(()) => value,
        Err(_) => 0,
    }
}

impl Shown<u32> for i32 {
    fn of(which: u32, device: i32) -> Self {
        attribute(which, device)
    }
}

impl Shown<u32> for u32 {
    fn of(which: u32, device: i32) -> Self {
        attribute(which, device) as u32
    }
}

impl Shown<u32> for usize {
    fn of(which: u32, device: i32) -> Self {
        attribute(which, device) as u32 as usize
    }
}

impl<const N: usize> Shown<[u32; N]> for [i32; N] {
    fn of(which: [u32; N], device: i32) -> Self {
        which.map(|one| attribute(one, device))
    }
}

/// `cudaGetDeviceProperties`.
pub fn get(properties: Out<Properties>, device: i32) -> Answer {
    require(!properties.is_null())?;
    context::check_device(device)?;
    let mut name = [0_u8; 256];
    cu::cuDeviceGetName(name.as_mut_ptr() as usize, name.len() as i32, device)?;
    let mut uuid = CuUuid { bytes: [0; 16] };
    cu::cuDeviceGetUuid(Out::to(&mut uuid), device)?;
    let mut bytes = 0;
    cu::cuDeviceTotalMem(Out::to(&mut bytes), device)?;
    properties.put(Properties::read(name, uuid, bytes, device))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::mem::offset_of;

    /// Size and offsets from a C compiler with CUDA 13.2's driver_types.h.
    #[test]
    fn the_layout_is_cudas() {
        assert_eq!(size_of::<Properties>(), 1008);
        let offsets = [
            (offset_of!(Properties, total_global_mem), 288),
            (offset_of!(Properties, total_const_mem), 352),
            (offset_of!(Properties, major), 360),
            (offset_of!(Properties, multi_processor_count), 384),
            (offset_of!(Properties, surface_alignment), 552),
            (offset_of!(Properties, l2_cache_size), 596),
            (offset_of!(Properties, shared_mem_per_block_optin), 672),
            (offset_of!(Properties, reserved_shared_mem_per_block), 696),
            (offset_of!(Properties, memory_pools_supported), 720),
            (offset_of!(Properties, host_numa_id), 768),
            (
                offset_of!(Properties, host_numa_multinode_ipc_supported),
                780,
            ),
            (offset_of!(Properties, reserved), 784),
        ];
        for (ours, cudas) in offsets {
            assert_eq!(ours, cudas);
        }
    }
}
