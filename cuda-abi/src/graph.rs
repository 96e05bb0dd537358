//! Structures of the graph API.

use crate::{CuDevicePtr, CuGraph, CuGraphNode, CuMemAccessDesc, CuMemPoolProps, CuStream};

/// `CUgraphNodeType`.
#[repr(transparent)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CuGraphNodeType(pub u32);

impl CuGraphNodeType {
    /// Runs another graph.
    pub const GRAPH: Self = Self(4);
    /// Allocates memory that the graph owns.
    pub const MEM_ALLOC: Self = Self(10);
    /// Frees such memory.
    pub const MEM_FREE: Self = Self(11);
}

/// `CUDA_MEM_ALLOC_NODE_PARAMS` (`_v1` and `_v2`): 120 bytes.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct CuMemAllocNodeParams {
    /// Where the memory is allocated.
    pub pool_props: CuMemPoolProps,
    /// The other devices that get access.
    pub access_descs: *const CuMemAccessDesc,
    /// The number of `access_descs`.
    pub access_desc_count: usize,
    /// The requested bytes.
    pub bytesize: usize,
    /// The address, which the driver writes.
    pub dptr: CuDevicePtr,
}

/// `CUgraphNodeParams`: 256 bytes. The type determines which member of the union is valid.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct CuGraphNodeParams {
    /// The type of the node.
    pub kind: CuGraphNodeType,
    /// Zero.
    pub reserved0: [i32; 3],
    /// The parameters of that type.
    pub parameters: CuGraphNodeUnion,
    /// Zero.
    pub reserved2: i64,
}

/// The parameters of a node of one type.
#[repr(C)]
#[derive(Clone, Copy)]
pub union CuGraphNodeUnion {
    /// The whole union.
    pub words: [i64; 29],
    /// A node that allocates memory.
    pub alloc: CuMemAllocNodeParams,
    /// A node that frees memory: the address.
    pub free: CuDevicePtr,
    /// A node that runs another graph.
    pub child: CuChildGraphNodeParams,
}

/// `CUDA_CHILD_GRAPH_NODE_PARAMS`: 16 bytes.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct CuChildGraphNodeParams {
    /// The graph.
    pub graph: CuGraph,
    /// `CUgraphChildGraphNodeOwnership`.
    pub ownership: u32,
}

impl CuChildGraphNodeParams {
    /// The node runs a clone.
    pub const CLONE: u32 = 0;
    /// The parent graph takes ownership of the child graph, which may have memory nodes.
    pub const MOVE: u32 = 1;
}

/// `CUDA_GRAPH_INSTANTIATE_PARAMS`: 32 bytes.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct CuGraphInstantiateParams {
    /// `CUgraphInstantiate_flags`.
    pub flags: u64,
    /// The stream to upload on.
    pub upload_stream: CuStream,
    /// The node at fault, which the driver writes.
    pub error_node: CuGraphNode,
    /// `CUgraphInstantiateResult`, which the driver writes.
    pub result: u32,
}

/// `CUDA_KERNEL_NODE_PARAMS` (`_v2`): 72 bytes; `_v1` ends before `kernel`.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CuKernelNodeParams {
    /// The kernel.
    pub function: usize,
    /// Blocks.
    pub grid: [u32; 3],
    /// Threads of a block.
    pub block: [u32; 3],
    /// Dynamic shared memory of a block.
    pub shared_bytes: u32,
    /// The kernel's arguments: an array of pointers.
    pub arguments: usize,
    /// The arguments in one packed buffer, as an alternative.
    pub extra: usize,
    /// The kernel without a context, if `function` is null.
    pub kernel: usize,
    /// The context for it.
    pub context: usize,
}

/// `CUDA_MEMSET_NODE_PARAMS` (`_v2`): 48 bytes; `_v1` ends before `context`.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CuMemsetNodeParams {
    /// The destination.
    pub to: CuDevicePtr,
    /// Bytes from row to row.
    pub pitch: usize,
    /// The value of each element.
    pub value: u32,
    /// Bytes of an element: 1, 2 or 4.
    pub element_bytes: u32,
    /// Elements of a row.
    pub columns: usize,
    /// Rows.
    pub rows: usize,
    /// The context to run in.
    pub context: usize,
}

/// `CUDA_HOST_NODE_PARAMS` (`_v1`): 16 bytes.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CuHostNodeParams {
    /// The function.
    pub function: usize,
    /// Its argument.
    pub data: usize,
}

/// `CUgraphExecUpdateResultInfo`: 24 bytes.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CuGraphExecUpdateResultInfo {
    /// `CUgraphExecUpdateResult`.
    pub result: u32,
    /// The node at fault.
    pub error_node: CuGraphNode,
    /// The node before it, at a faulty edge.
    pub error_from_node: CuGraphNode,
}
