//! Executable graphs: instantiated, uploaded to a device, launched. A launch makes the bytes of its memory nodes
//! live.

use core::ffi::c_char;

use gpumem_capture::DeviceOrdinal;
use gpumem_cuda_abi::{
    CuDevice, CuGraph, CuGraphExec, CuGraphInstantiateParams, CuGraphNode, CuResult, CuStream,
};

use gpumem_tracker::{Interest, Pending, Tracker};

use crate::call::Call;
use crate::limit::Takes;
use crate::session::{self, Session};
use crate::thread::Thread;
use crate::{record, tracked};

/// Applies a change, if there are graphs with memory nodes.
fn change(thread: &Thread, call: &Call, change: impl FnOnce(&mut Tracker)) {
    if has_nodes().is_some() {
        record::without_stacks(thread, call, |tracker, _| change(tracker));
    }
}

/// Called after an instantiation.
///
/// # Safety
/// If the call succeeded, the driver has just written to `exec`.
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
        let (exec, graph) = (exec.0 as u64, graph.0 as u64);
        change(thread, call, |tracker| {
            tracker.instantiated(exec, graph, flags)
        });
    }
    // Memory that an upload reserved before it failed stays reserved.
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
            takes taken_by_graph(graph);
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
    takes taken_by_graph(graph);
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
            takes taken_by_graph(graph);
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
            /// Uploads an executable graph to its device.
            Driver Optional
            fn $upload(exec: CuGraphExec, stream: CuStream) -> CuResult;
            missing CuResult::NOT_INITIALIZED;
            takes taken_by_launch(exec).unwrap_or_else(Takes::unknown);
            with call, thread, result, held;
            before {}
            after { record::settle(thread, call.api()); }
        }

        hook! {
            /// Runs a graph: its memory nodes allocate and free.
            Driver Optional
            fn $launch(exec: CuGraphExec, stream: CuStream) -> CuResult;
            missing CuResult::NOT_INITIALIZED;
            takes taken_by_launch(exec).unwrap_or_else(Takes::nothing);
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
            change(thread, &call, |tracker| tracker.exec_destroyed(exec.0 as u64));
            record::settle(thread, call.api());
        }
    }
}

hook! {
    /// Frees unused memory behind a device's graphs.
    Driver Optional
    fn cuDeviceGraphMemTrim(device: CuDevice) -> CuResult;
    missing CuResult::NOT_INITIALIZED;
    with call, thread, result, held;
    before {}
    after { record::settle(thread, call.api()); }
}

/// A launch of a graph that has memory nodes, and the devices on which they allocate.
type Launch = (Pending, Vec<DeviceOrdinal>);

/// Records the live memory that the launch frees. Memory that it allocates, and frees again, is recorded afterwards.
fn about_to_launch(thread: &Thread, call: &Call, exec: CuGraphExec) -> Option<Launch> {
    let exec = exec.0 as u64;
    has_nodes()?;
    record::without_stacks(thread, call, |tracker, origin| {
        let taken = tracker.taken_by_launch(exec)?;
        let devices = taken.into_keys().map(DeviceOrdinal).collect();
        Some((tracker.launching(exec, call.caller(), origin)?, devices))
    })?
}

fn launched(thread: &Thread, call: &Call, result: CuResult, (pending, devices): Launch) {
    // Memory that a launch reserved before it failed stays reserved.
    record::with_stacks(thread, call, DeviceOrdinal::NONE, |tracker, origin| {
        tracker.settle(pending, result.is_success(), origin);
    });
    record::settle(thread, call.api());
    if let Some(session) = session::session() {
        let allocated = |device| session.readings.grown(session.writer, device);
        devices.into_iter().for_each(allocated);
    }
}

/// The capture, if there are graphs with memory nodes.
fn has_nodes() -> Option<&'static Session> {
    session::session().filter(|session| session.interest().has(Interest::GRAPHS))
}

/// The maximum memory for an instantiation, which may upload the graph to its device.
fn taken_by_graph(graph: CuGraph) -> Takes {
    let taken = |tracker: &Tracker| tracker.taken_by_graph(graph.0 as u64);
    let taken = has_nodes().map(|session| tracked::look(session, taken));
    Takes::unknown_and(taken.unwrap_or_default())
}

/// The same for a launch; `None` if it has no memory nodes.
fn taken_by_launch(exec: CuGraphExec) -> Option<Takes> {
    let taken = |tracker: &Tracker| tracker.taken_by_launch(exec.0 as u64);
    let taken = tracked::look(has_nodes()?, taken)?;
    Some(Takes::unknown_and(taken))
}
