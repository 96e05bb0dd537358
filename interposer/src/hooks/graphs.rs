//! Graphs: their memory nodes, and the launches by which the nodes' bytes become live.
//!
//! A node has a fixed address from its creation on, by `cuGraphAddMemAllocNode`, `cuGraphAddNode` or an
//! allocation on a stream that is being captured. Its bytes are live from a launch that runs it to the
//! free, which is a node of the same launch or of another one, or a call.

use core::ffi::c_void;

use gpumem_capture::{DeviceOrdinal, EventFlags};
use gpumem_cuda_abi::{
    CuChildGraphNodeParams, CuDevicePtr, CuGraph, CuGraphNode, CuGraphNodeParams, CuGraphNodeType,
    CuMemAllocNodeParams, CuResult,
};

use gpumem_tracker::{Node, NodeWork, Origin, Tracker};

use super::places;
use crate::call::Call;
use crate::thread::Thread;
use crate::{driver, record};

/// Records a node that allocates. Nothing becomes live.
pub(super) fn added(thread: &Thread, call: &Call, graph: u64, node: Node) {
    let device = match node.work {
        NodeWork::Allocate { device, .. } => device,
        NodeWork::Free => DeviceOrdinal::NONE,
    };
    record::with_stacks(thread, call, device, |tracker, origin| {
        tracker.node_added(graph, node, origin);
    });
}

/// Records a node that frees.
pub(super) fn frees(thread: &Thread, call: &Call, graph: u64, handle: u64, ptr: u64) {
    let work = NodeWork::Free;
    let node = Node { handle, ptr, work };
    change(thread, call, |tracker, origin| {
        tracker.node_added(graph, node, origin)
    });
}

/// Applies a change of graphs without an event.
fn change(thread: &Thread, call: &Call, change: impl FnOnce(&mut Tracker, Origin)) {
    record::without_stacks(thread, call, change);
}

/// Records a node that allocates, from the parameters that the driver has written to.
fn made(
    thread: &Thread,
    call: &Call,
    graph: CuGraph,
    node: CuGraphNode,
    params: &CuMemAllocNodeParams,
) {
    let properties = &params.pool_props;
    let place = places::of(properties.alloc_type, properties.location);
    let (level, device, kind) = places::recorded_as(place);
    let work = NodeWork::Allocate {
        level,
        bytes: params.bytesize as u64,
        device: device.unwrap_or_else(driver::current_device),
        flags: EventFlags::GRAPH.with(kind),
    };
    let (handle, ptr) = (node.0 as u64, params.dptr.0);
    added(thread, call, graph.0 as u64, Node { handle, ptr, work });
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
            frees(thread, &call, graph.0 as u64, unsafe { (*node).0 } as u64, pointer.0);
        }
    }
}

/// Records a node of any type.
///
/// # Safety
/// The call that created the node succeeded, and these are its arguments.
unsafe fn of_any_kind(
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
            frees(thread, call, graph.0 as u64, node.0 as u64, pointer.0);
        }
        CuGraphNodeType::GRAPH => {
            // SAFETY: as above.
            let child = unsafe { params.parameters.child };
            let (graph, node, inner) = (graph.0 as u64, node.0 as u64, child.graph.0 as u64);
            // It ends with the node, and its handle may then be another graph's.
            let is_moved = child.ownership == CuChildGraphNodeParams::MOVE;
            change(thread, call, |tracker, _| {
                tracker.child_added(graph, node, inner);
                if is_moved {
                    tracker.graph_destroyed(inner);
                }
            });
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
            unsafe { of_any_kind(thread, &call, graph, node, params) };
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
                    unsafe { of_any_kind(thread, &call, graph, node, params) };
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
            change(thread, &call, |tracker, _| {
                tracker.child_added(graph.0 as u64, node, child.0 as u64);
            });
        }
    }
}

hook! {
    /// Removes a node from its graph.
    Driver Optional
    fn cuGraphDestroyNode(node: CuGraphNode) -> CuResult;
    missing CuResult::NOT_INITIALIZED;
    with call, thread, result, held;
    before {}
    after {
        if result.is_success() {
            change(thread, &call, |tracker, _| tracker.node_destroyed(node.0 as u64));
        }
    }
}

hook! {
    /// Ends a graph. Memory from its launches stays live.
    Driver Optional
    fn cuGraphDestroy(graph: CuGraph) -> CuResult;
    missing CuResult::NOT_INITIALIZED;
    with call, thread, result, held;
    before {}
    after {
        if result.is_success() {
            change(thread, &call, |tracker, _| tracker.graph_destroyed(graph.0 as u64));
            record::settle(thread, call.api());
        }
    }
}
