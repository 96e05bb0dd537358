//! Kernels, launches, libraries, occupancy.

use super::{OwnStream, exports};
use crate::function::{self, Attributes};
use crate::launch::{self, Launch};
use gpumem_cuda_abi::Dim3;
use gpumem_sim_client::cu;
use gpumem_sim_client::ffi::{Address, Handle, In, Out, Text};

exports! {
    nothing __cudaPopCallConfiguration (grid: Out<Dim3>, block: Out<Dim3>, shared_bytes: Out<usize>, stream: Out<Handle>) = launch::pop_configuration;
    context __cudaGetKernel (handle: Out<Handle>, kernel: Address) = function::get_kernel;
    context __cudaLaunchKernel (kernel: Address, grid: Dim3, block: Dim3, arguments: Address, shared_bytes: usize, stream: Handle) = launch::kernel;
    context __cudaLaunchKernel_ptsz (kernel: Address, grid: Dim3, block: Dim3, arguments: Address, shared_bytes: usize, stream: OwnStream) = launch::kernel;
    context cudaLaunchKernel (kernel: Address, grid: Dim3, block: Dim3, arguments: Address, shared_bytes: usize, stream: Handle) = launch::kernel;
    context cudaLaunchKernel_ptsz (kernel: Address, grid: Dim3, block: Dim3, arguments: Address, shared_bytes: usize, stream: OwnStream) = launch::kernel;
    context cudaLaunchCooperativeKernel (kernel: Address, grid: Dim3, block: Dim3, arguments: Address, shared_bytes: usize, stream: Handle) = launch::cooperative;
    context cudaLaunchCooperativeKernel_ptsz (kernel: Address, grid: Dim3, block: Dim3, arguments: Address, shared_bytes: usize, stream: OwnStream) = launch::cooperative;
    context cudaLaunchKernelExC (launch: In<Launch>, kernel: Address, arguments: Address) = launch::with_config;
    context cudaLaunchKernelExC_ptsz (launch: In<Launch>, kernel: Address, arguments: Address) = launch::with_config_per_thread;
    context cudaFuncGetAttributes (attributes: Out<Attributes>, kernel: Address) = function::get_attributes;
    context cudaFuncSetAttribute (kernel: Address, attribute: u32, value: i32) = function::set_attribute;
    context cudaFuncSetCacheConfig (kernel: Address, config: u32) = function::set_cache_config;
    context cudaFuncSetSharedMemConfig (kernel: Address, config: u32) = function::set_cache_config;
    context cudaFuncGetName (name: Out<Address>, kernel: Address) = function::get_name;
    context cudaFuncGetParamInfo (kernel: Address, index: usize, offset: Out<usize>, bytes: Out<usize>) = function::get_parameter;
    context cudaFuncGetParamCount (kernel: Address, count: Out<usize>) = function::get_parameter_count;
    context cudaGetFuncBySymbol (handle: Out<Handle>, kernel: Address) = function::by_symbol;
    context cudaGetKernel (handle: Out<Handle>, kernel: Address) = function::get_kernel;
    context cudaKernelSetAttributeForDevice (kernel: Handle, attribute: u32, value: i32, device: i32) = function::set_kernel_attribute;
    context cudaOccupancyMaxActiveBlocksPerMultiprocessor (blocks: Out<i32>, kernel: Address, block_threads: i32, shared_bytes: usize) = function::max_blocks;
    context cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags (blocks: Out<i32>, kernel: Address, block_threads: i32, shared_bytes: usize, flags: u32) = function::max_blocks_with_flags;
    context cudaOccupancyAvailableDynamicSMemPerBlock (bytes: Out<usize>, kernel: Address, blocks: i32, block_threads: i32) = function::available_shared;
    context cudaOccupancyMaxPotentialClusterSize (size: Out<i32>, kernel: Address, launch: In<Launch>) = function::max_cluster_size;
    context cudaOccupancyMaxActiveClusters (count: Out<i32>, kernel: Address, launch: In<Launch>) = function::max_clusters;
    driver cudaLibraryLoadData (library: Out<Handle>, code: Address, jit_options: Address, jit_values: Address, jit_count: u32, options: Address, values: Address, count: u32) = cu::cuLibraryLoadData;
    driver cudaLibraryLoadFromFile (library: Out<Handle>, path: Text, jit_options: Address, jit_values: Address, jit_count: u32, options: Address, values: Address, count: u32) = cu::cuLibraryLoadFromFile;
    driver cudaLibraryUnload (library: Handle) = function::unload_library;
    driver cudaLibraryGetKernel (kernel: Out<Handle>, library: Handle, name: Text) = function::library_kernel;
    context cudaLibraryGetGlobal (pointer: Out<Address>, bytes: Out<usize>, library: Handle, name: Text) = cu::cuLibraryGetGlobal;
    context cudaLibraryGetManaged (pointer: Out<Address>, bytes: Out<usize>, library: Handle, name: Text) = cu::cuLibraryGetManaged;
    context cudaLibraryGetUnifiedFunction (function: Out<Address>, library: Handle, name: Text) = cu::cuLibraryGetUnifiedFunction;
    driver cudaLibraryGetKernelCount (count: Out<u32>, library: Handle) = cu::cuLibraryGetKernelCount;
    driver cudaLibraryEnumerateKernels (kernels: Address, room: u32, library: Handle) = cu::cuLibraryEnumerateKernels;
}
