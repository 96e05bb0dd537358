//! Functions that add nodes to a graph: one for each kind, and those that take the kind in the
//! parameters.

use super::graph_memory;
use super::graph_work::{
    KernelParamsV1, MemsetParamsV1, copy_work, event_work, fill_work, host_work, kernel_work,
    member, put_member, work_of,
};
use crate::ffi::{Answer, Handle, In, Out, require};
use crate::model::State;
use crate::model::graph::Work;
use crate::model::state::state;
use gpumem_cuda_abi::{
    CuChildGraphNodeParams, CuGraph, CuGraphNodeParams, CuGraphNodeType, CuHostNodeParams,
    CuKernelNodeParams, CuMemAllocNodeParams, CuMemcpy3d,
};

fn add(out: Out<Handle>, graph: Handle, after: &[Handle], work: Work) -> Answer {
    require(!out.is_null())?;
    out.put(state()?.graphs.add(graph, after, work)?)
}

/// Makes functions that add a node of one kind. A row has the parameters after the common ones, and
/// the work that they define.
macro_rules! adders {
    ($($doc:literal $name:ident ($($argument:ident: $kind:ty),*) = $work:expr;)*) => {$(
        #[doc = $doc]
        pub extern "C" fn $name(
            out: Out<Handle>,
            graph: Handle,
            after: In<Handle>,
            count: usize,
            $($argument: $kind),*
        ) -> Answer {
            let work = $work;
            add(out, graph, &after.list(count)?, work)
        }
    )*};
}

adders! {
    "`cuGraphAddKernelNode`." add_kernel_v1 (parameters: In<KernelParamsV1>)
        = kernel_work(parameters.get()?.into())?;
    "`cuGraphAddKernelNode_v2`." add_kernel (parameters: In<CuKernelNodeParams>)
        = kernel_work(parameters.get()?)?;
    "`cuGraphAddMemcpyNode`." add_copy (copy: In<CuMemcpy3d>, _context: Handle)
        = copy_work(copy.get()?)?;
    "`cuGraphAddMemsetNode`." add_fill (parameters: In<MemsetParamsV1>, context: Handle)
        = fill_work(parameters.get()?.with(context))?;
    "`cuGraphAddHostNode`." add_host (parameters: In<CuHostNodeParams>)
        = host_work(parameters.get()?)?;
    "`cuGraphAddEmptyNode`." add_empty () = Work::Empty;
    "`cuGraphAddEventRecordNode`." add_record (event: Handle) = event_work(event, Work::Record)?;
    "`cuGraphAddEventWaitNode`." add_wait (event: Handle) = event_work(event, Work::Wait)?;
}

/// A child node: with a clone, or with the graph itself, which the node then owns.
fn add_child_to(
    state: &mut State,
    graph: Handle,
    after: &[Handle],
    child: CuChildGraphNodeParams,
) -> Answer<Handle> {
    let (inner, ownership) = (child.graph.0 as Handle, child.ownership);
    require(inner != graph && ownership <= CuChildGraphNodeParams::MOVE)?;
    state.graphs.get(graph)?;
    state.graphs.check_nodes(graph, after)?;
    let owned = if ownership == CuChildGraphNodeParams::MOVE {
        state.graphs.adopt(inner)?;
        inner
    } else {
        state.graphs.child(inner)?
    };
    state.graphs.add(graph, after, Work::Graph(owned))
}

/// `cuGraphAddChildGraphNode`: with a clone.
pub extern "C" fn add_child(
    out: Out<Handle>,
    graph: Handle,
    after: In<Handle>,
    count: usize,
    child: Handle,
) -> Answer {
    require(!out.is_null())?;
    let child = CuChildGraphNodeParams {
        graph: CuGraph(child as *mut _),
        ownership: CuChildGraphNodeParams::CLONE,
    };
    let after = after.list(count)?;
    out.put(add_child_to(&mut *state()?, graph, &after, child)?)
}

/// `cuGraphAddNode`.
pub extern "C" fn add_node(
    out: Out<Handle>,
    graph: Handle,
    after: In<Handle>,
    count: usize,
    parameters: Out<CuGraphNodeParams>,
) -> Answer {
    require(!out.is_null())?;
    let after = after.list(count)?;
    let mut wanted = parameters.get()?;
    match wanted.kind {
        CuGraphNodeType::MEM_ALLOC => {
            let mut of_node: CuMemAllocNodeParams = member(&wanted);
            let node = graph_memory::allocate(&mut *state()?, graph, &after, &mut of_node)?;
            put_member(&mut wanted, of_node);
            parameters.put(wanted)?;
            out.put(node)
        }
        CuGraphNodeType::MEM_FREE => out.put(state()?.add_free(graph, &after, member(&wanted))?),
        CuGraphNodeType::GRAPH => out.put(add_child_to(
            &mut *state()?,
            graph,
            &after,
            member(&wanted),
        )?),
        _ => add(out, graph, &after, work_of(&wanted)?),
    }
}

/// `cuGraphAddNode_v2`, `_v3`: the edges' data defines how kernels overlap, which has no effect
/// here. The third version only checks more of a kernel's context.
pub extern "C" fn add_node_v2(
    out: Out<Handle>,
    graph: Handle,
    after: In<Handle>,
    _data: Handle,
    count: usize,
    parameters: Out<CuGraphNodeParams>,
) -> Answer {
    add_node(out, graph, after, count, parameters)
}
