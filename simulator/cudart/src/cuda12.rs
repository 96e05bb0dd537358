//! Functions whose parameters differ in CUDA 12: they have no edge data, and a device where CUDA 13
//! has a location. Parameters have CUDA 13's names. In `libcudart.so.12` they are CUDA 12's, in
//! CUDA 12's order.

use crate::stream::PER_THREAD_STREAM;
use crate::{context, graph, thread};
use gpumem_cuda_abi::{CuMemLocation, CuMemLocationType, CudaError};
use gpumem_sim_client::cu;
use gpumem_sim_client::ffi::{Address, Answer, Handle, Out};
use gpumem_sim_client::release::is_cuda12;

/// Edges have no data.
const NO_DATA: Address = 0;

/// The nodes before or after a node.
macro_rules! neighbours {
    ($name:ident = $driver:path) => {
        #[doc = concat!("`", stringify!($driver), "`; CUDA 12: node, nodes, count.")]
        pub fn $name(node: Handle, nodes: Address, data: Address, count: Out<usize>) -> Answer {
            match is_cuda12() {
                true => $driver(node, nodes, NO_DATA, Out::at(data)),
                false => $driver(node, nodes, data, count),
            }
        }
    };
}
neighbours!(dependencies = cu::cuGraphNodeGetDependencies);
neighbours!(dependents = cu::cuGraphNodeGetDependentNodes);

/// `cudaGraphGetEdges`; CUDA 12: graph, from, to, count.
pub fn edges(
    graph: Handle,
    from: Address,
    to: Address,
    data: Address,
    count: Out<usize>,
) -> Answer {
    match is_cuda12() {
        true => cu::cuGraphGetEdges(graph, from, to, NO_DATA, Out::at(data)),
        false => cu::cuGraphGetEdges(graph, from, to, data, count),
    }
}

/// `cudaGraphAddDependencies`; CUDA 12: graph, from, to, count.
pub fn add(graph: Handle, from: Address, to: Address, data: Address, count: usize) -> Answer {
    match is_cuda12() {
        true => cu::cuGraphAddDependencies(graph, from, to, NO_DATA, data),
        false => cu::cuGraphAddDependencies(graph, from, to, data, count),
    }
}

/// `cudaGraphRemoveDependencies`; CUDA 12: graph, from, to, count.
pub fn remove(graph: Handle, from: Address, to: Address, data: Address, count: usize) -> Answer {
    match is_cuda12() {
        true => cu::cuGraphRemoveDependencies(graph, from, to, NO_DATA, data),
        false => cu::cuGraphRemoveDependencies(graph, from, to, data, count),
    }
}

/// `cudaGraphAddNode`; CUDA 12: node, graph, dependencies, count, parameters.
pub fn add_node(
    node: Out<Handle>,
    graph: Handle,
    dependencies: Address,
    data: Address,
    count: usize,
    parameters: Address,
) -> Answer {
    match is_cuda12() {
        true => graph::add_node(node, graph, dependencies, NO_DATA, data, count),
        false => graph::add_node(node, graph, dependencies, data, count, parameters),
    }
}

/// `cudaStreamGetCaptureInfo`; CUDA 12: stream, status, id.
pub fn capture_info(
    stream: Handle,
    status: Out<u32>,
    id: Out<u64>,
    graph: Out<Handle>,
    nodes: Out<Address>,
    edges: Out<Address>,
    count: Out<usize>,
) -> Answer {
    match is_cuda12() {
        true => cu::cuStreamGetCaptureInfo(
            stream,
            status,
            id,
            Out::NOWHERE,
            Out::NOWHERE,
            Out::NOWHERE,
            Out::NOWHERE,
        ),
        false => cu::cuStreamGetCaptureInfo(stream, status, id, graph, nodes, edges, count),
    }
}

/// CUDA 12's `cudaStreamGetCaptureInfo_v3`.
pub fn capture_info_v3(
    stream: Handle,
    status: Out<u32>,
    id: Out<u64>,
    graph: Out<Handle>,
    nodes: Out<Address>,
    edges: Out<Address>,
    count: Out<usize>,
) -> CudaError {
    thread::answer(|| {
        context::context()?;
        cu::cuStreamGetCaptureInfo(stream, status, id, graph, nodes, edges, count)
    })
}

/// `cudaStreamUpdateCaptureDependencies`; CUDA 12: stream, nodes, count, flags.
pub fn update_capture(
    stream: Handle,
    nodes: Address,
    edges: Address,
    count: usize,
    flags: u32,
) -> Answer {
    match is_cuda12() {
        true => cu::cuStreamUpdateCaptureDependencies(stream, nodes, NO_DATA, edges, count as u32),
        false => cu::cuStreamUpdateCaptureDependencies(stream, nodes, edges, count, flags),
    }
}

/// `cudaMemAdvise`; CUDA 12: pointer, bytes, advice, device.
pub fn advise(pointer: Address, bytes: usize, advice: u32, location: CuMemLocation) -> Answer {
    cu::cuMemAdvise(pointer, bytes, advice, placed(location))
}

/// `cudaMemPrefetchAsync`; CUDA 12: pointer, bytes, device, stream.
pub fn prefetch(
    pointer: Address,
    bytes: usize,
    location: CuMemLocation,
    flags: Handle,
    stream: Handle,
) -> Answer {
    match is_cuda12() {
        true => cu::cuMemPrefetchAsync(pointer, bytes, placed(location), 0, flags),
        false => cu::cuMemPrefetchAsync(pointer, bytes, location, flags as u32, stream),
    }
}

/// `cudaMemPrefetchAsync_ptsz`.
pub fn prefetch_per_thread(
    pointer: Address,
    bytes: usize,
    location: CuMemLocation,
    flags: Handle,
    stream: Handle,
) -> Answer {
    let own = match flags {
        0 if is_cuda12() => PER_THREAD_STREAM,
        given => given,
    };
    prefetch(pointer, bytes, location, own, stream)
}

/// The location for the driver: in CUDA 12 the first field is a device, or `cudaCpuDeviceId`.
fn placed(location: CuMemLocation) -> CuMemLocation {
    const HOST: i32 = -1;
    if !is_cuda12() {
        return location;
    }
    match location.kind.0.cast_signed() {
        HOST => CuMemLocation {
            kind: CuMemLocationType::HOST,
            id: 0,
        },
        device => CuMemLocation {
            kind: CuMemLocationType::DEVICE,
            id: device,
        },
    }
}
