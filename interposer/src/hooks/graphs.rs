//! Graphs: their memory nodes, and the launches by which the nodes' bytes become live.
//!
//! A node has a fixed address from the moment it is made, by `cuGraphAddMemAllocNode`, `cuGraphAddNode`
//! or an allocation on a stream that is being captured. Its bytes are live from a launch that runs it to
//! the free, which is a node of the same launch or of another one, or a call.

use core::ffi::c_void;

use gpumem_capture::{EventFlags, EventKind, Level};
use gpumem_cuda_abi::{
    CuChildGraphNodeParams, CuDevice, CuDevicePtr, CuGraph, CuGraphNode, CuGraphNodeParams,
    CuGraphNodeType, CuMemAllocNodeParams, CuResult,
};

use crate::call::Call;
use crate::driver;
use crate::graph_nodes::{self, Node, Work};
use crate::physical::graphs;
use crate::record;
use crate::sideband::{self, Sideband};
use crate::thread::Thread;

/// Takes note of a node that allocates. Nothing becomes live.
pub(super) fn allocates(thread: &Thread, call: &Call, graph: u64, node: Node) {
    let Work::Allocate {
        bytes,
        device,
        flags,
    } = node.work
    else {
        return;
    };
    graphs::used(device);
    graph_nodes::add(graph, node);
    let what = Sideband {
        ptr: node.ptr,
        bytes,
        aux: graph,
        device,
        flags,
        with_stacks: true,
    };
    sideband::record(thread, call.api(), EventKind::NODE, Level::DRIVER, what);
}

/// Takes note of a node that frees.
pub(super) fn frees(graph: u64, handle: u64, ptr: u64) {
    let work = Work::Free;
    graph_nodes::add(graph, Node { handle, ptr, work });
}

/// Takes note of a node that allocates, from the parameters that the driver has written to.
fn made(
    thread: &Thread,
    call: &Call,
    graph: CuGraph,
    node: CuGraphNode,
    params: &CuMemAllocNodeParams,
) {
    let work = Work::Allocate {
        bytes: params.bytesize as u64,
        device: driver::ordinal(CuDevice(params.pool_props.location.id)),
        flags: EventFlags::GRAPH,
    };
    let (handle, ptr) = (node.0 as u64, params.dptr.0);
    allocates(thread, call, graph.0 as u64, Node { handle, ptr, work });
}

hook! {
    /// A node that allocates.
    Driver Optional
    fn cuGraphAddMemAllocNode(
        node: *mut CuGraphNode,
        graph: CuGraph,
        dependencies: *const CuGraphNode,
        count: usize,
        params: *mut CuMemAllocNodeParams,
    ) -> CuResult;
    missing CuResult::NOT_INITIALIZED;
    with call, thread, result, held;
    before {}
    after {
        if result.is_success() {
            // SAFETY: the call succeeded, so the driver has just written to both.
            let (node, params) = unsafe { (*node, &*params) };
            made(thread, &call, graph, node, params);
        }
    }
}

hook! {
    /// A node that frees.
    Driver Optional
    fn cuGraphAddMemFreeNode(
        node: *mut CuGraphNode,
        graph: CuGraph,
        dependencies: *const CuGraphNode,
        count: usize,
        pointer: CuDevicePtr,
    ) -> CuResult;
    missing CuResult::NOT_INITIALIZED;
    with call, thread, result, held;
    before {}
    after {
        if result.is_success() {
            // SAFETY: the call succeeded, so the driver has just written there.
            frees(graph.0 as u64, unsafe { (*node).0 } as u64, pointer.0);
        }
    }
}

/// Takes note of a node of any kind.
///
/// # Safety
/// The call that made the node succeeded, and these are its arguments.
unsafe fn added(
    thread: &Thread,
    call: &Call,
    graph: CuGraph,
    node: *mut CuGraphNode,
    params: *mut CuGraphNodeParams,
) {
    // SAFETY: the call succeeded, so the driver has read the parameters and written the node.
    let (node, params) = unsafe { (*node, &*params) };
    match params.kind {
        CuGraphNodeType::MEM_ALLOC => {
            // SAFETY: the kind says which member it is.
            let alloc = unsafe { &params.parameters.alloc };
            made(thread, call, graph, node, alloc);
        }
        CuGraphNodeType::MEM_FREE => {
            // SAFETY: as above.
            let pointer = unsafe { params.parameters.free };
            frees(graph.0 as u64, node.0 as u64, pointer.0);
        }
        CuGraphNodeType::GRAPH => {
            // SAFETY: as above.
            let child = unsafe { params.parameters.child };
            let (graph, node, inner) = (graph.0 as u64, node.0 as u64, child.graph.0 as u64);
            graph_nodes::add_child(graph, node, inner);
            if child.ownership == CuChildGraphNodeParams::MOVE {
                // It ends with the node, and its handle may then be another graph's.
                graph_nodes::destroy_graph(inner);
            }
        }
        _ => {}
    }
}

hook! {
    /// A node of any kind.
    Driver Optional
    fn cuGraphAddNode(
        node: *mut CuGraphNode,
        graph: CuGraph,
        dependencies: *const CuGraphNode,
        count: usize,
        params: *mut CuGraphNodeParams,
    ) -> CuResult;
    missing CuResult::NOT_INITIALIZED;
    with call, thread, result, held;
    before {}
    after {
        if result.is_success() {
            // SAFETY: the call succeeded with these arguments.
            unsafe { added(thread, &call, graph, node, params) };
        }
    }
}

macro_rules! with_edge_data {
    ($($name:ident;)*) => {$(
        hook! {
            /// A node of any kind, with edge data.
            Driver Optional
            fn $name(
                node: *mut CuGraphNode,
                graph: CuGraph,
                dependencies: *const CuGraphNode,
                data: *const c_void,
                count: usize,
                params: *mut CuGraphNodeParams,
            ) -> CuResult;
            missing CuResult::NOT_INITIALIZED;
            with call, thread, result, held;
            before {}
            after {
                if result.is_success() {
                    // SAFETY: the call succeeded with these arguments.
                    unsafe { added(thread, &call, graph, node, params) };
                }
            }
        }
    )*};
}

with_edge_data! {
    cuGraphAddNode_v2;
    cuGraphAddNode_v3;
}

hook! {
    /// A graph within a graph.
    Driver Optional
    fn cuGraphAddChildGraphNode(
        node: *mut CuGraphNode,
        graph: CuGraph,
        dependencies: *const CuGraphNode,
        count: usize,
        child: CuGraph,
    ) -> CuResult;
    missing CuResult::NOT_INITIALIZED;
    with call, thread, result, held;
    before {}
    after {
        if result.is_success() {
            // SAFETY: the call succeeded, so the driver has just written there.
            let node = unsafe { (*node).0 } as u64;
            graph_nodes::add_child(graph.0 as u64, node, child.0 as u64);
        }
    }
}

hook! {
    /// Takes a node out of its graph.
    Driver Optional
    fn cuGraphDestroyNode(node: CuGraphNode) -> CuResult;
    missing CuResult::NOT_INITIALIZED;
    with call, thread, result, held;
    before {}
    after {
        if result.is_success() {
            graph_nodes::destroy_node(node.0 as u64);
        }
    }
}

hook! {
    /// Ends a graph. What its launches have made live stays so.
    Driver Optional
    fn cuGraphDestroy(graph: CuGraph) -> CuResult;
    missing CuResult::NOT_INITIALIZED;
    with call, thread, result, held;
    before {}
    after {
        if result.is_success() {
            graph_nodes::destroy_graph(graph.0 as u64);
            record::settle(thread, call.api());
        }
    }
}
