//! Graphs: their memory nodes, and the launches by which the nodes' bytes become live.
//!
//! A node has a fixed address from the moment it is made, by `cuGraphAddMemAllocNode`, `cuGraphAddNode`
//! or an allocation on a stream that is being captured. Its bytes are live from a launch that runs it to
//! the free, which is a node of the same launch or of another one, or a call.

use core::ffi::{c_char, c_void};

use gpumem_capture::{EventFlags, EventKind, Level};
use gpumem_cuda_abi::{
    CuChildGraphNodeParams, CuDevice, CuDevicePtr, CuGraph, CuGraphExec, CuGraphInstantiateParams,
    CuGraphNode, CuGraphNodeParams, CuGraphNodeType, CuMemAllocNodeParams, CuResult, CuStream,
};

use crate::call::Call;
use crate::driver;
use crate::graph_nodes::{self, Node, Work};
use crate::limit::Takes;
use crate::physical::graphs;
use crate::record::{self, New, Released};
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

/// After an instantiation.
///
/// # Safety
/// If the call succeeded, `exec` is what the driver has just written to.
unsafe fn instantiated(
    thread: &Thread,
    call: &Call,
    result: CuResult,
    (exec, graph): (*mut CuGraphExec, CuGraph),
    flags: u64,
) {
    if result.is_success() {
        // SAFETY: the caller's promise.
        let exec = unsafe { *exec };
        graph_nodes::instantiate(exec.0 as u64, graph.0 as u64, flags);
    }
    // What an upload reserved before it failed stays reserved.
    record::settle(thread, call.api());
}

macro_rules! with_a_log {
    ($($(#[$doc:meta])* $name:ident;)*) => {$(
        hook! {
            $(#[$doc])*
            Driver Optional
            fn $name(
                exec: *mut CuGraphExec,
                graph: CuGraph,
                error_node: *mut CuGraphNode,
                log: *mut c_char,
                size: usize,
            ) -> CuResult;
            missing CuResult::NOT_INITIALIZED;
            takes Takes::unknown_and(graph_nodes::taken_by_graph(graph.0 as u64));
            with call, thread, result, held;
            before {}
            after {
                // SAFETY: the caller's own argument, written if the call succeeded.
                unsafe { instantiated(thread, &call, result, (exec, graph), 0) };
            }
        }
    )*};
}

with_a_log! {
    /// An executable graph, by CUDA 10's form.
    cuGraphInstantiate;
    /// An executable graph, by CUDA 11's form.
    cuGraphInstantiate_v2;
}

hook! {
    /// An executable graph.
    Driver Optional
    fn cuGraphInstantiateWithFlags(exec: *mut CuGraphExec, graph: CuGraph, flags: u64) -> CuResult;
    missing CuResult::NOT_INITIALIZED;
    takes Takes::unknown_and(graph_nodes::taken_by_graph(graph.0 as u64));
    with call, thread, result, held;
    before {}
    after {
        // SAFETY: the caller's own argument, written if the call succeeded.
        unsafe { instantiated(thread, &call, result, (exec, graph), flags) };
    }
}

macro_rules! on_streams {
    ($($with_params:ident, $upload:ident, $launch:ident;)*) => {$(
        hook! {
            /// An executable graph, with parameters in a structure.
            Driver Optional
            fn $with_params(
                exec: *mut CuGraphExec,
                graph: CuGraph,
                params: *mut CuGraphInstantiateParams,
            ) -> CuResult;
            missing CuResult::NOT_INITIALIZED;
            takes Takes::unknown_and(graph_nodes::taken_by_graph(graph.0 as u64));
            with call, thread, result, held;
            before {}
            after {
                // SAFETY: if the call succeeded, the driver has read the structure.
                let flags = if result.is_success() { unsafe { (*params).flags } } else { 0 };
                // SAFETY: the caller's own argument, written if the call succeeded.
                unsafe { instantiated(thread, &call, result, (exec, graph), flags) };
            }
        }

        hook! {
            /// Brings an executable graph to its device.
            Driver Optional
            fn $upload(exec: CuGraphExec, stream: CuStream) -> CuResult;
            missing CuResult::NOT_INITIALIZED;
            takes Takes::unknown_and(graph_nodes::taken_by_launch(exec.0 as u64).unwrap_or_default());
            with call, thread, result, held;
            before {}
            after { record::settle(thread, call.api()); }
        }

        hook! {
            /// Runs a graph: its memory nodes allocate and free.
            Driver Optional
            fn $launch(exec: CuGraphExec, stream: CuStream) -> CuResult;
            missing CuResult::NOT_INITIALIZED;
            takes graph_nodes::taken_by_launch(exec.0 as u64)
                .map_or_else(Takes::nothing, Takes::unknown_and);
            with call, thread, result, held;
            before { about_to_launch(thread, &call, exec) }
            after {
                if let Some(Some(launch)) = held {
                    launched(thread, &call, result, launch);
                }
            }
        }
    )*};
}

on_streams! {
    cuGraphInstantiateWithParams, cuGraphUpload, cuGraphLaunch;
    cuGraphInstantiateWithParams_ptsz, cuGraphUpload_ptsz, cuGraphLaunch_ptsz;
}

hook! {
    /// Ends an executable graph.
    Driver Optional
    fn cuGraphExecDestroy(exec: CuGraphExec) -> CuResult;
    missing CuResult::NOT_INITIALIZED;
    with call, thread, result, held;
    before {}
    after {
        if result.is_success() {
            graph_nodes::destroy_exec(exec.0 as u64);
            record::settle(thread, call.api());
        }
    }
}

hook! {
    /// Gives back what stands behind a device's graphs and is not used.
    Driver Optional
    fn cuDeviceGraphMemTrim(device: CuDevice) -> CuResult;
    missing CuResult::NOT_INITIALIZED;
    with call, thread, result, held;
    before {}
    after { record::settle(thread, call.api()); }
}

/// A launch of a graph that has memory nodes.
struct Launch {
    /// What it frees that was live before.
    released: Vec<Released>,
    /// The rest of its work, in order.
    nodes: Vec<Node>,
}

/// Records what the launch frees that is live now. What it allocates, and frees again, comes afterwards.
fn about_to_launch(thread: &Thread, call: &Call, exec: CuGraphExec) -> Option<Launch> {
    let work = graph_nodes::of_launch(exec.0 as u64)?;
    let release = |ptr| {
        let (level, flags) = (Level::DRIVER, EventFlags::GRAPH);
        record::releasing(thread, call.api(), level, ptr, flags, 0)
    };
    Some(Launch {
        released: work.frees_before.into_iter().filter_map(release).collect(),
        nodes: work.nodes,
    })
}

fn launched(thread: &Thread, call: &Call, result: CuResult, launch: Launch) {
    for released in launch.released {
        if result.is_success() {
            record::done(thread, call.api(), released);
        } else {
            record::cancel(thread, call.api(), released);
        }
    }
    // What a launch reserved before it failed stays reserved.
    let nodes = if result.is_success() {
        launch.nodes
    } else {
        Vec::new()
    };
    for node in nodes {
        let (level, ptr) = (Level::DRIVER, node.ptr);
        match node.work {
            Work::Allocate {
                bytes,
                device,
                flags,
            } => {
                let new = New {
                    level,
                    ptr,
                    bytes,
                    device,
                    context: 0,
                    flags,
                    aux: call.caller(),
                };
                record::allocated(thread, call.api(), new);
            }
            Work::Free => {
                let flags = EventFlags::GRAPH;
                if let Some(released) = record::releasing(thread, call.api(), level, ptr, flags, 0)
                {
                    record::done(thread, call.api(), released);
                }
            }
        }
    }
    record::settle(thread, call.api());
}
