//! Registration and launches, as compiled code calls them.

use crate::registry::registry;
use crate::thread::{self, Configuration};
use gpumem_cuda_abi::{CudaError, Dim3};
use gpumem_sim_client::cu;
use gpumem_sim_client::ffi::{Address, Answer, Handle, In, Out, Text};
use gpumem_sim_client::structures::LaunchConfig;
use std::ffi::CString;

/// `cudaErrorMissingConfiguration`.
const MISSING_CONFIGURATION: CudaError = CudaError(52);

/// `cudaLaunchConfig_t`: 56 bytes.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Launch {
    grid: Dim3,
    block: Dim3,
    shared_bytes: usize,
    stream: Handle,
    attributes: Address,
    attribute_count: u32,
}

impl Launch {
    /// The driver's structure for the same launch.
    pub fn driver(&self) -> LaunchConfig {
        LaunchConfig {
            grid: [self.grid.x, self.grid.y, self.grid.z],
            block: [self.block.x, self.block.y, self.block.z],
            shared_bytes: self.shared_bytes as u32,
            stream: self.stream,
            attributes: self.attributes,
            attribute_count: self.attribute_count,
        }
    }
}

/// `cudaLaunchKernel`, `__cudaLaunchKernel`.
pub fn kernel(
    kernel: Address,
    grid: Dim3,
    block: Dim3,
    arguments: Address,
    shared_bytes: usize,
    stream: Handle,
) -> Answer {
    let function = registry().function(kernel)?;
    cu::cuLaunchKernel(
        function,
        grid.x,
        grid.y,
        grid.z,
        block.x,
        block.y,
        block.z,
        shared_bytes as u32,
        stream,
        arguments,
        0,
    )
}

/// `cudaLaunchCooperativeKernel`.
pub fn cooperative(
    kernel: Address,
    grid: Dim3,
    block: Dim3,
    arguments: Address,
    shared_bytes: usize,
    stream: Handle,
) -> Answer {
    let function = registry().function(kernel)?;
    cu::cuLaunchCooperativeKernel(
        function,
        grid.x,
        grid.y,
        grid.z,
        block.x,
        block.y,
        block.z,
        shared_bytes as u32,
        stream,
        arguments,
    )
}

/// `cudaLaunchKernelExC`.
pub fn with_config(launch: In<Launch>, kernel: Address, arguments: Address) -> Answer {
    let config = launch.get()?.driver();
    cu::cuLaunchKernelEx(In::of(&config), registry().function(kernel)?, arguments, 0)
}

/// `cudaLaunchKernelExC_ptsz`.
pub fn with_config_per_thread(launch: In<Launch>, kernel: Address, arguments: Address) -> Answer {
    let mut launch = launch.get()?;
    if launch.stream == 0 {
        launch.stream = crate::stream::PER_THREAD_STREAM;
    }
    with_config(In::of(&launch), kernel, arguments)
}

/// `__cudaPushCallConfiguration`: always succeeds (0).
pub fn push_configuration(grid: Dim3, block: Dim3, shared_bytes: usize, stream: Handle) -> u32 {
    thread::push_configuration(Configuration {
        grid,
        block,
        shared_bytes,
        stream,
    });
    0
}

/// `__cudaPopCallConfiguration`.
pub fn pop_configuration(
    grid: Out<Dim3>,
    block: Out<Dim3>,
    shared_bytes: Out<usize>,
    stream: Out<Handle>,
) -> Answer {
    let found = thread::pop_configuration().ok_or(MISSING_CONFIGURATION)?;
    grid.put(found.grid)?;
    block.put(found.block)?;
    shared_bytes.put(found.shared_bytes)?;
    stream.put(found.stream)
}

/// `__cudaRegisterFatBinary`.
pub fn register_image(wrapper: Address) -> Address {
    registry().add_image(wrapper)
}

/// `__cudaRegisterFatBinaryEnd`: nothing is deferred until then. `__cudaRegisterHostVar` and
/// `__cudaRegisterUnifiedTable` are for systems that are not simulated.
pub fn nothing() {}

/// `__cudaUnregisterFatBinary`.
pub fn unregister_image(image: Address) {
    registry().remove_image(image);
}

/// A name; empty if the pointer is null. The driver then does not find it.
fn name(text: Text) -> CString {
    text.get().unwrap_or_default()
}

/// `__cudaRegisterFunction`. Its last pointers were for device emulation, which no longer exists.
#[allow(clippy::too_many_arguments)]
pub fn register_kernel(
    image: Address,
    host: Address,
    _device: Address,
    device_name: Text,
    _thread_limit: i32,
    _thread: Address,
    _block: Address,
    _block_extent: Address,
    _grid_extent: Address,
    _warp_size: Address,
) {
    registry().add_kernel(image, host, name(device_name));
}

/// `__cudaRegisterVar`.
#[allow(clippy::too_many_arguments)]
pub fn register_variable(
    image: Address,
    host: Address,
    _device: Address,
    device_name: Text,
    _external: i32,
    bytes: usize,
    _constant: i32,
    _global: i32,
) {
    let name = name(device_name);
    registry().add_variable(image, host, name, bytes, Out::NOWHERE);
}

/// `__cudaRegisterManagedVar`: the program's pointer is set when its image is first used.
#[allow(clippy::too_many_arguments)]
pub fn register_managed(
    image: Address,
    host: Address,
    _device: Address,
    device_name: Text,
    _external: i32,
    bytes: usize,
    _constant: i32,
    _global: i32,
) {
    let name = name(device_name);
    let place = Out::at(host);
    registry().add_variable(image, host, name, bytes, place);
}

/// `__cudaInitModule`: returns whether it succeeded.
pub fn initialise_image(image: Address) -> u8 {
    let placed = crate::context::context().and_then(|()| registry().place_managed(image));
    u8::from(placed.is_ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn configurations_nest() {
        let extent = |x| Dim3 { x, y: 1, z: 1 };
        push_configuration(extent(1), extent(2), 3, 4);
        push_configuration(extent(5), extent(6), 7, 8);
        for expected in [[5, 6, 7, 8], [1, 2, 3, 4]] {
            let (mut grid, mut block) = (extent(0), extent(0));
            let (mut bytes, mut stream) = (0, 0);
            let popped = pop_configuration(
                Out::to(&mut grid),
                Out::to(&mut block),
                Out::to(&mut bytes),
                Out::to(&mut stream),
            );
            assert_eq!(popped, Ok(()));
            let got = [grid.x as usize, block.x as usize, bytes, stream];
            assert_eq!(got, expected);
        }
        let none = pop_configuration(Out::NOWHERE, Out::NOWHERE, Out::NOWHERE, Out::NOWHERE);
        assert_eq!(none, Err(MISSING_CONFIGURATION));
    }

    #[test]
    fn launch_has_cudas_size() {
        assert_eq!(size_of::<Launch>(), 56);
    }
}
