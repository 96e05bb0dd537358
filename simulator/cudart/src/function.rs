//! Kernels and libraries: handles, attributes, occupancy.

use crate::launch::Launch;
use crate::registry::registry;
use gpumem_sim_client::cu;
use gpumem_sim_client::ffi::{Address, Answer, Handle, In, Out, Text, require};

/// `cudaFuncAttributes` of CUDA 13: 144 bytes.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Attributes {
    shared_size_bytes: usize,
    const_size_bytes: usize,
    local_size_bytes: usize,
    max_threads_per_block: i32,
    num_regs: i32,
    ptx_version: i32,
    binary_version: i32,
    cache_mode_ca: i32,
    max_dynamic_shared_size_bytes: i32,
    preferred_shmem_carveout: i32,
    cluster_dim_must_be_set: i32,
    required_cluster_width: i32,
    required_cluster_height: i32,
    required_cluster_depth: i32,
    cluster_scheduling_policy_preference: i32,
    non_portable_cluster_size_allowed: i32,
    reserved: [i32; 17],
}

/// `cudaFuncGetAttributes`.
pub fn get_attributes(attributes: Out<Attributes>, kernel: Address) -> Answer {
    require(!attributes.is_null())?;
    let function = registry().function(kernel)?;
    let get = |attribute: u32| -> Answer<i32> {
        let mut value = 0;
        cu::cuFuncGetAttribute(Out::to(&mut value), attribute, function)?;
        Ok(value)
    };
    attributes.put(Attributes {
        shared_size_bytes: get(1)? as usize,
        const_size_bytes: get(2)? as usize,
        local_size_bytes: get(3)? as usize,
        max_threads_per_block: get(0)?,
        num_regs: get(4)?,
        ptx_version: get(5)?,
        binary_version: get(6)?,
        cache_mode_ca: get(7)?,
        max_dynamic_shared_size_bytes: get(8)?,
        preferred_shmem_carveout: get(9)?,
        cluster_dim_must_be_set: get(10)?,
        required_cluster_width: get(11)?,
        required_cluster_height: get(12)?,
        required_cluster_depth: get(13)?,
        cluster_scheduling_policy_preference: get(15)?,
        non_portable_cluster_size_allowed: get(14)?,
        reserved: [0; 17],
    })
}

/// `cudaFuncSetAttribute`. The numbers are the driver's.
pub fn set_attribute(kernel: Address, attribute: u32, value: i32) -> Answer {
    cu::cuFuncSetAttribute(registry().function(kernel)?, attribute, value)
}

/// `cudaFuncSetCacheConfig`.
pub fn set_cache_config(kernel: Address, config: u32) -> Answer {
    cu::cuFuncSetCacheConfig(registry().function(kernel)?, config)
}

/// `cudaFuncGetName`.
pub fn get_name(name: Out<Address>, kernel: Address) -> Answer {
    cu::cuFuncGetName(name, registry().function(kernel)?)
}

/// `cudaFuncGetParamInfo`.
pub fn get_parameter(
    kernel: Address,
    index: usize,
    offset: Out<usize>,
    bytes: Out<usize>,
) -> Answer {
    cu::cuFuncGetParamInfo(registry().function(kernel)?, index, offset, bytes)
}

/// `cudaFuncGetParamCount`.
pub fn get_parameter_count(kernel: Address, count: Out<usize>) -> Answer {
    cu::cuFuncGetParamCount(registry().function(kernel)?, count)
}

/// `cudaGetFuncBySymbol`.
pub fn by_symbol(function: Out<Handle>, kernel: Address) -> Answer {
    function.put(registry().function(kernel)?)
}

/// `cudaGetKernel`, `__cudaGetKernel`.
pub fn get_kernel(handle: Out<Handle>, kernel: Address) -> Answer {
    require(!handle.is_null())?;
    handle.put(registry().kernel(kernel)?)
}

/// `cudaKernelSetAttributeForDevice`: in the driver's function the kernel is the third parameter.
pub fn set_kernel_attribute(kernel: Handle, attribute: u32, value: i32, device: i32) -> Answer {
    cu::cuKernelSetAttribute(attribute, value, kernel, device)
}

/// `cudaOccupancyMaxActiveBlocksPerMultiprocessor`.
pub fn max_blocks(
    blocks: Out<i32>,
    kernel: Address,
    block_threads: i32,
    shared_bytes: usize,
) -> Answer {
    max_blocks_with_flags(blocks, kernel, block_threads, shared_bytes, 0)
}

/// `cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags`.
pub fn max_blocks_with_flags(
    blocks: Out<i32>,
    kernel: Address,
    block_threads: i32,
    shared_bytes: usize,
    flags: u32,
) -> Answer {
    let function = registry().function(kernel)?;
    cu::cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(
        blocks,
        function,
        block_threads,
        shared_bytes,
        flags,
    )
}

/// `cudaOccupancyAvailableDynamicSMemPerBlock`.
pub fn available_shared(
    bytes: Out<usize>,
    kernel: Address,
    blocks: i32,
    block_threads: i32,
) -> Answer {
    let function = registry().function(kernel)?;
    cu::cuOccupancyAvailableDynamicSMemPerBlock(bytes, function, blocks, block_threads)
}

/// `cudaOccupancyMaxPotentialClusterSize`.
pub fn max_cluster_size(size: Out<i32>, kernel: Address, launch: In<Launch>) -> Answer {
    let config = launch.get()?.driver();
    cu::cuOccupancyMaxPotentialClusterSize(size, registry().function(kernel)?, In::of(&config))
}

/// `cudaOccupancyMaxActiveClusters`.
pub fn max_clusters(count: Out<i32>, kernel: Address, launch: In<Launch>) -> Answer {
    let config = launch.get()?.driver();
    cu::cuOccupancyMaxActiveClusters(count, registry().function(kernel)?, In::of(&config))
}

/// `cudaLibraryGetKernel`.
pub fn library_kernel(kernel: Out<Handle>, library: Handle, name: Text) -> Answer {
    let mut handle = 0;
    cu::cuLibraryGetKernel(Out::to(&mut handle), library, name)?;
    registry().add_library_kernel(library, handle);
    kernel.put(handle)
}

/// `cudaLibraryUnload`.
pub fn unload_library(library: Handle) -> Answer {
    registry().forget_library(library);
    cu::cuLibraryUnload(library)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_structure_has_cudas_size() {
        assert_eq!(size_of::<Attributes>(), 144);
    }
}
