//! Executable graphs: instantiated, brought to a device, launched. A launch makes the bytes of its memory nodes live.

use core::ffi::c_char;

use gpumem_capture::{EventFlags, Level};
use gpumem_cuda_abi::{
    CuDevice, CuGraph, CuGraphExec, CuGraphInstantiateParams, CuGraphNode, CuResult, CuStream,
};

use crate::call::Call;
use crate::graph_nodes::{self, Node, Work};
use crate::limit::Takes;
use crate::record::{self, New, Released};
use crate::thread::Thread;

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
