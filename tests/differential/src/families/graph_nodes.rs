//! Graphs as programs build them: node by node, by the function of each kind and by the generic ones,
//! and captured from streams.

use gpumem_cuda_abi::{
    CuChildGraphNodeParams, CuDevicePtr, CuGraph, CuGraphInstantiateParams, CuGraphNode,
    CuGraphNodeParams, CuGraphNodeType, CuGraphNodeUnion, CuMemAllocNodeParams, CuStream,
};

use super::pool;
use crate::model::{Executable, Given};
use crate::pass::{Addr, Made, Updated};
use crate::world::World;

/// `CU_STREAM_CAPTURE_MODE_RELAXED`: other calls of the thread are allowed.
const RELAXED: u32 = 2;
/// `CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH`.
const AUTO_FREE: u64 = 1;
/// `CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD`.
const UPLOAD: u64 = 2;

/// A graph under construction.
#[derive(Debug, Default)]
struct Draft {
    graph: usize,
    nodes: Vec<usize>,
    /// Memory that its launch leaves live.
    given: Vec<Given>,
    /// Memory of other graphs that its launch frees.
    frees: Vec<Addr>,
}

/// Builds a graph node by node.
pub fn by_nodes(world: &mut World) {
    let mut draft = Draft::default();
    if world.graphs.executables.len() >= 6
        || world.cuda.cuGraphCreate(Some(&mut draft.graph), 0) != 0
    {
        return;
    }
    for _ in 0..world.rng.within(1, 5) {
        match world.rng.below(12) {
            0..7 => allocating(world, &mut draft),
            7 => empty(world, &mut draft),
            8 => freeing_others(world, &mut draft),
            9 => child(world, &mut draft),
            10 => moved(world, &mut draft),
            _ => without(world, &mut draft),
        }
    }
    instantiate(world, draft);
}

/// The node on which a new one depends, if any.
fn before(world: &mut World, draft: &Draft) -> Option<usize> {
    world.rng.pick(&draft.nodes).filter(|_| draft.graph != 0)
}

fn generic(kind: CuGraphNodeType, parameters: CuGraphNodeUnion) -> CuGraphNodeParams {
    CuGraphNodeParams {
        kind,
        reserved0: [0; 3],
        parameters,
        reserved2: 0,
    }
}

/// Adds a node by one of the generic functions.
fn add(
    world: &mut World,
    draft: &mut Draft,
    after: Option<usize>,
    parameters: &mut CuGraphNodeParams,
) -> bool {
    let (mut node, place, graph) = (0, Some(parameters), draft.graph);
    let (after, count) = (after.as_ref(), usize::from(after.is_some()));
    let code = match world.rng.below(3) {
        0 => world
            .cuda
            .cuGraphAddNode(Some(&mut node), graph, after, count, place),
        1 => world
            .cuda
            .cuGraphAddNode_v2(Some(&mut node), graph, after, 0, count, place),
        _ => world
            .cuda
            .cuGraphAddNode_v3(Some(&mut node), graph, after, 0, count, place),
    };
    if code == 0 {
        draft.nodes.push(node);
    }
    code == 0
}

/// Adds a node that allocates and, in half of the cases, one that frees that memory.
fn allocating(world: &mut World, draft: &mut Draft) {
    let device = world.rng.below(world.devices) as i32;
    let mut pool_props = pool::properties(device, 0);
    pool_props.handle_types = 0;
    let mut alloc = CuMemAllocNodeParams {
        pool_props,
        access_descs: std::ptr::null(),
        access_desc_count: 0,
        bytesize: world.bytes(),
        dptr: CuDevicePtr(0),
    };
    let after = before(world, draft);
    let made = if world.rng.percent(40) {
        let (mut node, place) = (0, Some(&mut alloc));
        let count = usize::from(after.is_some());
        let code = world.cuda.cuGraphAddMemAllocNode(
            Some(&mut node),
            draft.graph,
            after.as_ref(),
            count,
            place,
        );
        if code == 0 {
            draft.nodes.push(node);
        }
        code == 0
    } else {
        let union = CuGraphNodeUnion { alloc };
        let mut parameters = generic(CuGraphNodeType::MEM_ALLOC, union);
        let made = add(world, draft, after, &mut parameters);
        // SAFETY: the kind names the member.
        alloc = unsafe { parameters.parameters.alloc };
        made
    };
    if !made {
        return;
    }
    let (pointer, bytes) = (Addr(alloc.dptr.0), alloc.bytesize);
    world.cuda.sized(pointer.0, bytes);
    let node = draft.nodes.last().copied();
    if world.rng.percent(10)
        && let Some(node) = node
    {
        let mut told = alloc;
        world
            .cuda
            .cuGraphMemAllocNodeGetParams(node, Some(&mut told));
        world.cuda.sized(pointer.0, bytes);
    }
    if world.rng.percent(40) && freeing(world, draft, node, pointer) {
        return;
    }
    draft.given.push(Given { pointer, device });
}

fn freeing(world: &mut World, draft: &mut Draft, after: Option<usize>, pointer: Addr) -> bool {
    let free = CuDevicePtr(pointer.0);
    let made = if world.rng.percent(40) {
        let (mut node, count) = (0, usize::from(after.is_some()));
        let code = world.cuda.cuGraphAddMemFreeNode(
            Some(&mut node),
            draft.graph,
            after.as_ref(),
            count,
            pointer,
        );
        if code == 0 {
            draft.nodes.push(node);
        }
        code == 0
    } else {
        let mut union = CuGraphNodeUnion { words: [0; 29] };
        union.free = free;
        let mut parameters = generic(CuGraphNodeType::MEM_FREE, union);
        add(world, draft, after, &mut parameters)
    };
    if made && world.rng.percent(10) {
        let (node, mut told) = (draft.nodes.last().copied(), Addr(0));
        world
            .cuda
            .cuGraphMemFreeNodeGetParams(node.unwrap_or(0), Some(&mut told));
    }
    made
}

fn empty(world: &mut World, draft: &mut Draft) {
    let mut node = 0;
    let after = before(world, draft);
    let count = usize::from(after.is_some());
    let code = world
        .cuda
        .cuGraphAddEmptyNode(Some(&mut node), draft.graph, after.as_ref(), count);
    if !world.expect(code) {
        return;
    }
    // An earlier node stays earlier, so that memory is allocated and freed in the order of the nodes.
    if let Some(first) = world.rng.pick(&draft.nodes)
        && world.rng.percent(40)
    {
        world
            .cuda
            .cuGraphAddDependencies(draft.graph, Some(&first), Some(&node), 1);
    }
    draft.nodes.push(node);
    if world.rng.percent(20) {
        // In a graph with memory nodes the call must fail.
        if world.cuda.cuGraphDestroyNode(node) == 0 {
            draft.nodes.pop();
        }
    }
}

/// Adds a node that frees memory that another graph's launch has left live.
fn freeing_others(world: &mut World, draft: &mut Draft) {
    let Some(given) = world.rng.pick(&world.graphs.live) else {
        return;
    };
    let after = before(world, draft);
    if !draft.frees.contains(&given.pointer) && freeing(world, draft, after, given.pointer) {
        draft.frees.push(given.pointer);
    }
}

/// Adds a child graph without memory; the node runs a clone of it. A graph with memory must not be
/// cloned.
fn child(world: &mut World, draft: &mut Draft) {
    let (mut inner, mut node) = (0, 0);
    if world.cuda.cuGraphCreate(Some(&mut inner), 0) != 0 {
        return;
    }
    let mut within = Draft {
        graph: inner,
        ..Draft::default()
    };
    if world.rng.percent(25) {
        allocating(world, &mut within);
    } else {
        empty(world, &mut within);
    }
    let code = world
        .cuda
        .cuGraphAddChildGraphNode(Some(&mut node), draft.graph, None, 0, inner);
    if code == 0 {
        draft.nodes.push(node);
    }
    let code = world.cuda.cuGraphDestroy(inner);
    world.expect(code);
}

/// Adds a child graph, with memory or without, that the node owns.
fn moved(world: &mut World, draft: &mut Draft) {
    let mut within = Draft::default();
    if world.cuda.cuGraphCreate(Some(&mut within.graph), 0) != 0 {
        return;
    }
    for _ in 0..world.rng.within(1, 3) {
        allocating(world, &mut within);
    }
    let mut union = CuGraphNodeUnion { words: [0; 29] };
    union.child = CuChildGraphNodeParams {
        graph: CuGraph(within.graph as *mut _),
        ownership: CuChildGraphNodeParams::MOVE,
    };
    let mut parameters = generic(CuGraphNodeType::GRAPH, union);
    let after = before(world, draft);
    if add(world, draft, after, &mut parameters) {
        draft.given.append(&mut within.given);
    } else {
        let code = world.cuda.cuGraphDestroy(within.graph);
        world.expect(code);
    }
}

/// Clones the graph, which fails for a graph with memory nodes.
fn without(world: &mut World, draft: &mut Draft) {
    let mut clone = 0;
    if world.cuda.cuGraphClone(Some(&mut clone), draft.graph) == 0 {
        let code = world.cuda.cuGraphDestroy(clone);
        world.expect(code);
    }
}

/// Builds a graph by capture, on a separate stream or on the thread's default stream.
pub fn by_capture(world: &mut World) {
    let mut stream = 0;
    if world.graphs.executables.len() >= 6 {
        return;
    }
    let default = world.rng.percent(25);
    if !default && world.cuda.cuStreamCreate(Some(&mut stream), 0) != 0 {
        return;
    }
    let mut draft = Draft::default();
    if begin(world, stream, &mut draft) {
        work(world, stream, &mut draft);
        let code = if default || world.rng.percent(30) {
            world
                .cuda
                .cuStreamEndCapture_ptsz(stream, Some(&mut draft.graph))
        } else {
            world
                .cuda
                .cuStreamEndCapture(stream, Some(&mut draft.graph))
        };
        if code == 0 {
            instantiate(world, draft);
        }
    }
    if !default {
        let code = world.cuda.cuStreamDestroy_v2(stream);
        world.expect(code);
    }
}

/// Begins a capture; 0 is the thread's default stream.
fn begin(world: &mut World, stream: usize, draft: &mut Draft) -> bool {
    let own = stream == 0;
    // A global capture also forbids other threads' calls.
    let mode = if world.alone {
        world.rng.below(3) as u32
    } else {
        world.rng.within(1, 3) as u32
    };
    let code = match world.rng.below(4) {
        0 if world.alone && own => world.cuda.cuStreamBeginCapture_ptsz(stream),
        0 if world.alone => world.cuda.cuStreamBeginCapture(stream),
        1 => {
            let mut graph = 0;
            if world.cuda.cuGraphCreate(Some(&mut graph), 0) != 0 {
                return false;
            }
            let code = if own || world.rng.percent(30) {
                world
                    .cuda
                    .cuStreamBeginCaptureToGraph_ptsz(stream, graph, None, 0, 0, mode)
            } else {
                world
                    .cuda
                    .cuStreamBeginCaptureToGraph(stream, graph, None, 0, 0, mode)
            };
            if code != 0 {
                let code = world.cuda.cuGraphDestroy(graph);
                world.expect(code);
            }
            code
        }
        2 if !own => world.cuda.cuStreamBeginCapture_v2(stream, mode),
        _ => world.cuda.cuStreamBeginCapture_v2_ptsz(stream, mode),
    };
    draft.graph = 0;
    code == 0
}

fn work(world: &mut World, stream: usize, draft: &mut Draft) {
    let own = stream == 0;
    let device = world.owner().device;
    for _ in 0..world.rng.within(1, 5) {
        let (mut pointer, bytes) = (Made(0), world.rng.bytes());
        let place = Some(&mut pointer);
        let code = if own || world.rng.percent(30) {
            world.cuda.cuMemAllocAsync_ptsz(place, bytes, stream)
        } else {
            world.cuda.cuMemAllocAsync(place, bytes, stream)
        };
        if code == 0 {
            world.cuda.sized(pointer.0, bytes);
            let pointer = Addr(pointer.0);
            draft.given.push(Given { pointer, device });
        }
    }
    if let Some(place) = world.rng.find(&draft.given, |_| true)
        && world.rng.percent(60)
        && let Some(given) = draft.given.get(place).copied()
    {
        let code = if own || world.rng.percent(30) {
            world.cuda.cuMemFreeAsync_ptsz(given.pointer, stream)
        } else {
            world.cuda.cuMemFreeAsync(given.pointer, stream)
        };
        if code == 0 {
            draft.given.swap_remove(place);
        }
    }
    if world.rng.percent(20) {
        let mut status = 0;
        if own {
            world
                .cuda
                .cuStreamIsCapturing_ptsz(stream, Some(&mut status));
        } else {
            world.cuda.cuStreamIsCapturing(stream, Some(&mut status));
        }
    }
    if world.rng.percent(15) {
        // Not allowed during a capture unless the thread's mode is relaxed.
        let mut mode = RELAXED;
        let relaxed = world.rng.percent(60);
        if relaxed {
            world
                .cuda
                .cuThreadExchangeStreamCaptureMode(Some(&mut mode));
        }
        let (mut pointer, bytes) = (Made(0), world.rng.bytes());
        let code = world.cuda.cuMemAlloc_v2(Some(&mut pointer), bytes);
        super::device::made(world, code, pointer, bytes, false);
        if relaxed {
            world
                .cuda
                .cuThreadExchangeStreamCaptureMode(Some(&mut mode));
        }
    }
}

fn instantiate(world: &mut World, draft: Draft) {
    let (graph, mut handle) = (draft.graph, 0);
    let flags = world.rng.pick(&[0, 0, AUTO_FREE]).unwrap_or(0);
    let place = Some(&mut handle);
    let (code, auto_free) = match world.rng.below(6) {
        0 => (
            world.cuda.cuGraphInstantiate_v2(place, graph, 0, 0, 0),
            false,
        ),
        1 => (world.cuda.cuGraphInstantiate(place, graph, 0, 0, 0), false),
        2 | 3 => (
            world.cuda.cuGraphInstantiateWithFlags(place, graph, flags),
            flags != 0,
        ),
        way => {
            let flags = flags | world.rng.pick(&[0, UPLOAD]).unwrap_or(0);
            let mut parameters = CuGraphInstantiateParams {
                flags,
                upload_stream: CuStream::NULL,
                error_node: CuGraphNode::NULL,
                result: 0,
            };
            let asked = Some(&mut parameters);
            let code = if way == 4 {
                world.cuda.cuGraphInstantiateWithParams(place, graph, asked)
            } else {
                world
                    .cuda
                    .cuGraphInstantiateWithParams_ptsz(place, graph, asked)
            };
            (code, flags & AUTO_FREE != 0)
        }
    };
    // A graph that is uploaded and frees memory that is no longer live cannot be instantiated.
    let expected = draft.frees.is_empty();
    if if expected {
        world.expect(code)
    } else {
        code == 0
    } {
        world.graphs.executables.push(Executable {
            handle,
            given: draft.given,
            frees: draft.frees,
            auto_free,
        });
        again(world, graph);
    }
    if world.rng.percent(50) {
        let code = world.cuda.cuGraphDestroy(graph);
        world.expect(code);
    } else {
        world.graphs.graphs.push(graph);
    }
}

/// A second executable of the same graph, which fails for a graph with memory nodes; and an update.
fn again(world: &mut World, graph: usize) {
    if world.rng.percent(10) {
        let mut second = 0;
        let code = world
            .cuda
            .cuGraphInstantiateWithFlags(Some(&mut second), graph, 0);
        if code == 0 {
            let code = world.cuda.cuGraphExecDestroy(second);
            world.expect(code);
        }
    }
    let executable = world.graphs.executables.last().map_or(0, |e| e.handle);
    if world.rng.percent(10) {
        // An update by the same graph, or by another one, which has other memory.
        let other = world.rng.pick(&world.graphs.graphs).unwrap_or(graph);
        let graph = world.rng.pick(&[graph, other]).unwrap_or(graph);
        if world.rng.percent(50) {
            let (mut node, mut result) = (0, 0);
            world
                .cuda
                .cuGraphExecUpdate(executable, graph, Some(&mut node), Some(&mut result));
        } else {
            let mut result = Updated::default();
            world
                .cuda
                .cuGraphExecUpdate_v2(executable, graph, Some(&mut result));
        }
    }
}
