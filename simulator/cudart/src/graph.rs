//! Graph functions that differ from the driver's. Kernels are identified by their host symbols, and
//! copies use the runtime's structures.

use crate::copy::Kind;
use crate::copy_box::{Parameters, for_driver, line};
use crate::registry::registry;
use crate::{symbol, thread};
use gpumem_cuda_abi::{CuKernelNodeParams, Dim3};
use gpumem_sim_client::cu;
use gpumem_sim_client::ffi::{Address, Answer, Handle, In, Out, require};
use gpumem_sim_client::structures::Memcpy3d;

/// `cudaKernelNodeParams`: 56 bytes.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct KernelParameters {
    function: Address,
    grid: Dim3,
    block: Dim3,
    shared_bytes: u32,
    arguments: Address,
    extra: Address,
}

impl KernelParameters {
    fn driver(&self) -> Answer<CuKernelNodeParams> {
        Ok(CuKernelNodeParams {
            function: registry().function(self.function)?,
            grid: [self.grid.x, self.grid.y, self.grid.z],
            block: [self.block.x, self.block.y, self.block.z],
            shared_bytes: self.shared_bytes,
            arguments: self.arguments,
            extra: self.extra,
            kernel: 0,
            context: 0,
        })
    }

    fn of(told: &CuKernelNodeParams) -> Self {
        let extent = |[x, y, z]: [u32; 3]| Dim3 { x, y, z };
        Self {
            function: registry().stands_for(told.function),
            grid: extent(told.grid),
            block: extent(told.block),
            shared_bytes: told.shared_bytes,
            arguments: told.arguments,
            extra: told.extra,
        }
    }
}

fn no_kernel() -> CuKernelNodeParams {
    CuKernelNodeParams {
        function: 0,
        grid: [0; 3],
        block: [0; 3],
        shared_bytes: 0,
        arguments: 0,
        extra: 0,
        kernel: 0,
        context: 0,
    }
}

/// `cudaGraphAddKernelNode`.
pub fn add_kernel(
    node: Out<Handle>,
    graph: Handle,
    dependencies: Address,
    count: usize,
    parameters: In<KernelParameters>,
) -> Answer {
    let kernel = parameters.get()?.driver()?;
    cu::cuGraphAddKernelNode(node, graph, dependencies, count, In::of(&kernel))
}

/// `cudaGraphKernelNodeGetParams`.
pub fn get_kernel(node: Handle, parameters: Out<KernelParameters>) -> Answer {
    let mut told = no_kernel();
    cu::cuGraphKernelNodeGetParams(node, Out::to(&mut told))?;
    parameters.put(KernelParameters::of(&told))
}

/// `cudaGraphKernelNodeSetParams`.
pub fn set_kernel(node: Handle, parameters: In<KernelParameters>) -> Answer {
    let kernel = parameters.get()?.driver()?;
    cu::cuGraphKernelNodeSetParams(node, In::of(&kernel))
}

/// `cudaGraphExecKernelNodeSetParams`.
pub fn set_kernel_of(executable: Handle, node: Handle, parameters: In<KernelParameters>) -> Answer {
    let kernel = parameters.get()?.driver()?;
    cu::cuGraphExecKernelNodeSetParams(executable, node, In::of(&kernel))
}

/// Makes the three functions for each form of a copy node's parameters: to add a node, to change
/// it, and to change it in an executable graph.
macro_rules! copies {
    ($($doc:literal $add:ident $set:ident $set_of:ident
       ($($argument:ident: $kind:ty),*) = $copy:expr;)*) => {$(
        #[doc = concat!("`cudaGraphAddMemcpyNode", $doc, "`.")]
        #[allow(clippy::too_many_arguments)]
        pub fn $add(
            node: Out<Handle>,
            graph: Handle,
            dependencies: Address,
            count: usize,
            $($argument: $kind),*
        ) -> Answer {
            let copy: Memcpy3d = $copy?;
            let context = thread::bound().context;
            cu::cuGraphAddMemcpyNode(node, graph, dependencies, count, In::of(&copy), context)
        }

        #[doc = concat!("`cudaGraphMemcpyNodeSetParams", $doc, "`.")]
        pub fn $set(node: Handle, $($argument: $kind),*) -> Answer {
            let copy: Memcpy3d = $copy?;
            cu::cuGraphMemcpyNodeSetParams(node, In::of(&copy))
        }

        #[doc = concat!("`cudaGraphExecMemcpyNodeSetParams", $doc, "`.")]
        pub fn $set_of(executable: Handle, node: Handle, $($argument: $kind),*) -> Answer {
            let copy: Memcpy3d = $copy?;
            let context = thread::bound().context;
            cu::cuGraphExecMemcpyNodeSetParams(executable, node, In::of(&copy), context)
        }
    )*};
}

copies! {
    "" add_copy set_copy set_copy_of (parameters: In<Parameters>) = for_driver(&parameters.get()?);
    "1D" add_linear set_linear set_linear_of
        (to: Address, from: Address, bytes: usize, kind: Kind) = line(to, from, bytes, kind);
    "ToSymbol" add_to_symbol set_to_symbol set_to_symbol_of
        (variable: Address, from: Address, bytes: usize, offset: usize, kind: Kind)
        = line(symbol::range(variable, offset, bytes)?, from, bytes, kind);
    "FromSymbol" add_from_symbol set_from_symbol set_from_symbol_of
        (to: Address, variable: Address, bytes: usize, offset: usize, kind: Kind)
        = line(to, symbol::range(variable, offset, bytes)?, bytes, kind);
}

/// `cudaGraphMemcpyNodeGetParams`.
pub fn get_copy(node: Handle, parameters: Out<Parameters>) -> Answer {
    let mut told = Memcpy3d::default();
    cu::cuGraphMemcpyNodeGetParams(node, Out::to(&mut told))?;
    parameters.put(Parameters::of(&told)?)
}

/// `cudaGraphAddMemsetNode`: in the current context.
pub fn add_fill(
    node: Out<Handle>,
    graph: Handle,
    dependencies: Address,
    count: usize,
    parameters: Address,
) -> Answer {
    let context = thread::bound().context;
    cu::cuGraphAddMemsetNode(node, graph, dependencies, count, parameters, context)
}

/// `cudaGraphExecMemsetNodeSetParams`.
pub fn set_fill_of(executable: Handle, node: Handle, parameters: Address) -> Answer {
    let context = thread::bound().context;
    cu::cuGraphExecMemsetNodeSetParams(executable, node, parameters, context)
}

/// `cudaGraphNodeParams` of a kernel, 256 bytes. Its `kernel` has the driver's layout,
/// `CUgraphNodeParams`. The runtime has the context where the driver has `kernel.kernel`, and the
/// kind of the function where the driver has the context.
#[repr(C)]
#[derive(Clone, Copy)]
struct KernelNode {
    kind: u32,
    zero: [u32; 3],
    kernel: CuKernelNodeParams,
    rest: [u64; 20],
    end: u64,
}

/// `cudaKernelFunctionType`: a kernel handle.
const KERNEL: usize = 2;
/// A function handle.
const FUNCTION: usize = 3;

/// `CUgraphNodeParams` of a copy: 256 bytes.
#[repr(C)]
#[derive(Clone, Copy)]
struct CopyNode {
    kind: u32,
    zero: [u32; 3],
    flags: u64,
    context: Handle,
    copy: Memcpy3d,
    rest: [u64; 2],
    end: u64,
}

/// `cudaGraphNodeParams` of a copy: 256 bytes.
#[repr(C)]
#[derive(Clone, Copy)]
struct RuntimeCopyNode {
    kind: u32,
    zero: [u32; 3],
    flags: u64,
    context: Handle,
    copy: Parameters,
    rest: [u64; 7],
    end: u64,
}

/// Calls the driver with a node's parameters in the driver's layout. Only kernels and copies need a
/// conversion.
fn with_driver_parameters(parameters: Address, call: impl FnOnce(Address) -> Answer) -> Answer {
    match Out::<u32>::at(parameters).get()? {
        0 => {
            let mut node = Out::<KernelNode>::at(parameters).get()?;
            let what = node.kernel.context & 0xffff_ffff;
            // The current context; execution contexts are not distinguished.
            (node.kernel.context, node.kernel.kernel) = (0, 0);
            match what {
                KERNEL => node.kernel.kernel = std::mem::take(&mut node.kernel.function),
                FUNCTION => {}
                _ => node.kernel.function = registry().function(node.kernel.function)?,
            }
            call(std::ptr::from_mut(&mut node) as Address)
        }
        1 => {
            let node = Out::<RuntimeCopyNode>::at(parameters).get()?;
            let mut node = CopyNode {
                kind: 1,
                zero: node.zero,
                flags: node.flags,
                context: node.context,
                copy: for_driver(&node.copy)?,
                rest: [0; 2],
                end: node.end,
            };
            call(std::ptr::from_mut(&mut node) as Address)
        }
        _ => call(parameters),
    }
}

/// `cudaGraphAddNode`.
pub fn add_node(
    node: Out<Handle>,
    graph: Handle,
    dependencies: Address,
    data: Address,
    count: usize,
    parameters: Address,
) -> Answer {
    with_driver_parameters(parameters, |for_driver| {
        cu::cuGraphAddNode(node, graph, dependencies, data, count, for_driver)
    })
}

/// `cudaGraphNodeSetParams`.
pub fn set_node(node: Handle, parameters: Address) -> Answer {
    with_driver_parameters(parameters, |for_driver| {
        cu::cuGraphNodeSetParams(node, for_driver)
    })
}

/// `cudaGraphExecNodeSetParams`.
pub fn set_node_of(executable: Handle, node: Handle, parameters: Address) -> Answer {
    with_driver_parameters(parameters, |for_driver| {
        cu::cuGraphExecNodeSetParams(executable, node, for_driver)
    })
}

/// `cudaGraphNodeGetParams`.
pub fn get_node(node: Handle, parameters: Address) -> Answer {
    require(parameters != 0)?;
    let mut kind = 0;
    cu::cuGraphNodeGetType(node, Out::to(&mut kind))?;
    cu::cuGraphNodeGetParams(node, parameters)?;
    match kind {
        0 => {
            let place = Out::<KernelNode>::at(parameters);
            let mut told = place.get()?;
            (told.kernel.context, told.kernel.kernel) = (0, 0);
            told.kernel.function = registry().stands_for(told.kernel.function);
            place.put(told)
        }
        1 => {
            let told = Out::<CopyNode>::at(parameters).get()?;
            Out::at(parameters).put(RuntimeCopyNode {
                kind,
                zero: told.zero,
                flags: told.flags,
                context: told.context,
                copy: Parameters::of(&told.copy)?,
                rest: [0; 7],
                end: told.end,
            })
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_have_cudas_sizes() {
        assert_eq!(size_of::<KernelParameters>(), 56);
        assert_eq!(size_of::<KernelNode>(), 256);
        assert_eq!(size_of::<CopyNode>(), 256);
        assert_eq!(size_of::<RuntimeCopyNode>(), 256);
    }
}
