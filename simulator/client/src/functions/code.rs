//! Libraries, kernels, launches, occupancy.

use super::functions;
use crate::ffi::{Address, Handle, In, Out, Text};

/// `CUlaunchConfig`: 56 bytes.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct LaunchConfig {
    /// Blocks.
    pub grid: [u32; 3],
    /// Threads of a block.
    pub block: [u32; 3],
    /// Dynamic shared memory of a block.
    pub shared_bytes: u32,
    /// The stream.
    pub stream: Handle,
    /// `CUlaunchAttribute`s, passed on.
    pub attributes: Address,
    /// How many.
    pub attribute_count: u32,
}

functions! { super::CODE;
    cuLibraryLoadData 12000 (library: Out<Handle>, code: Address, jit_options: Address, jit_values: Address, jit_count: u32, options: Address, values: Address, count: u32);
    cuLibraryLoadFromFile 12000 (library: Out<Handle>, path: Text, jit_options: Address, jit_values: Address, jit_count: u32, options: Address, values: Address, count: u32);
    cuLibraryUnload 12000 (library: Handle);
    cuLibraryGetKernel 12000 (kernel: Out<Handle>, library: Handle, name: Text);
    cuKernelGetFunction 12000 (function: Out<Handle>, kernel: Handle);
    cuLibraryGetGlobal 12000 (pointer: Out<Address>, bytes: Out<usize>, library: Handle, name: Text);
    cuLibraryGetManaged 12000 (pointer: Out<Address>, bytes: Out<usize>, library: Handle, name: Text);
    cuLibraryGetUnifiedFunction 12000 (function: Out<Address>, library: Handle, name: Text);
    cuLibraryGetKernelCount 12040 (count: Out<u32>, library: Handle);
    cuLibraryEnumerateKernels 12040 (kernels: Address, room: u32, library: Handle);
    cuKernelSetAttribute 12000 (attribute: u32, value: i32, kernel: Handle, device: i32);
    cuFuncSetCacheConfig 3000 (function: Handle, config: u32);
    cuFuncGetAttribute 2020 (value: Out<i32>, attribute: u32, function: Handle);
    cuFuncSetAttribute 9000 (function: Handle, attribute: u32, value: i32);
    cuFuncGetName 12030 (name: Out<Address>, function: Handle);
    cuFuncGetParamInfo 12040 (function: Handle, index: usize, offset: Out<usize>, bytes: Out<usize>);
    cuFuncGetParamCount 13020 (function: Handle, count: Out<usize>);
    cuLaunchKernel 4000 (function: Handle, grid_x: u32, grid_y: u32, grid_z: u32, block_x: u32, block_y: u32, block_z: u32, shared_bytes: u32, stream: Handle, arguments: Address, extra: Address);
    cuLaunchCooperativeKernel 9000 (function: Handle, grid_x: u32, grid_y: u32, grid_z: u32, block_x: u32, block_y: u32, block_z: u32, shared_bytes: u32, stream: Handle, arguments: Address);
    cuLaunchKernelEx 11060 (config: In<LaunchConfig>, function: Handle, arguments: Address, extra: Address);
    cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags 7000 (blocks: Out<i32>, function: Handle, block_threads: i32, shared_bytes: usize, flags: u32);
    cuOccupancyAvailableDynamicSMemPerBlock 10020 (bytes: Out<usize>, function: Handle, blocks: i32, block_threads: i32);
    cuOccupancyMaxPotentialClusterSize 11070 (size: Out<i32>, function: Handle, config: In<LaunchConfig>);
    cuOccupancyMaxActiveClusters 11070 (count: Out<i32>, function: Handle, config: In<LaunchConfig>);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_launch_configuration_has_cudas_size() {
        assert_eq!(size_of::<LaunchConfig>(), 56);
    }
}
