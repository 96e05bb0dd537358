//! Nodes: added to a graph one family at a time, or by the parameters that say what they are.

use super::copy_side::{ARRAY, UNIFIED};
use super::{fill, graph_memory, kernel};
use crate::ffi::{Answer, Handle, In, Out, answer, require};
use crate::model::State;
use crate::model::graph::Work;
use crate::model::state::state;
use gpumem_cuda_abi::{
    CuChildGraphNodeParams, CuDevicePtr, CuGraph, CuGraphNodeParams, CuGraphNodeType,
    CuGraphNodeUnion, CuHostNodeParams, CuKernelNodeParams, CuMemAllocNodeParams, CuMemcpy3d,
    CuMemsetNodeParams, CuResult,
};
use std::mem::size_of;

/// `CUDA_KERNEL_NODE_PARAMS` before CUDA 12: without the last two members.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct KernelParamsV1 {
    function: usize,
    grid: [u32; 3],
    block: [u32; 3],
    shared_bytes: u32,
    arguments: usize,
    extra: usize,
}

/// `CUDA_MEMSET_NODE_PARAMS` (`_v1`): without the context.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct MemsetParamsV1 {
    to: CuDevicePtr,
    pitch: usize,
    value: u32,
    element_bytes: u32,
    columns: usize,
    rows: usize,
}

/// `CUDA_MEMCPY_NODE_PARAMS`: 216 bytes.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct MemcpyParams {
    flags: u32,
    reserved: u32,
    context: usize,
    copy: CuMemcpy3d,
}

impl From<KernelParamsV1> for CuKernelNodeParams {
    fn from(v1: KernelParamsV1) -> Self {
        Self {
            function: v1.function,
            grid: v1.grid,
            block: v1.block,
            shared_bytes: v1.shared_bytes,
            arguments: v1.arguments,
            extra: v1.extra,
            kernel: 0,
            context: 0,
        }
    }
}

impl From<CuKernelNodeParams> for KernelParamsV1 {
    fn from(newer: CuKernelNodeParams) -> Self {
        Self {
            function: newer.function,
            grid: newer.grid,
            block: newer.block,
            shared_bytes: newer.shared_bytes,
            arguments: newer.arguments,
            extra: newer.extra,
        }
    }
}

impl MemsetParamsV1 {
    /// With the context to run in.
    pub fn with(self, context: usize) -> CuMemsetNodeParams {
        CuMemsetNodeParams {
            to: self.to,
            pitch: self.pitch,
            value: self.value,
            element_bytes: self.element_bytes,
            columns: self.columns,
            rows: self.rows,
            context,
        }
    }
}

/// Work of a kernel, checked. The function may be given as a kernel without a context; its arguments
/// are not kept, since code is never looked at.
pub fn kernel_work(parameters: CuKernelNodeParams) -> Answer<Work> {
    let mut kept = CuKernelNodeParams {
        arguments: 0,
        extra: 0,
        ..parameters
    };
    if kept.function == 0 {
        kept.function = kept.kernel;
        kept.kernel = 0;
    }
    kernel::check(&kept)?;
    let state = state()?;
    if kept.context == 0 {
        kept.context = state.bound()?.context;
    }
    Ok(Work::Kernel(kept))
}

/// Work of a copy.
pub fn copy_work(copy: CuMemcpy3d) -> Answer<Work> {
    let known = |kind: u32| (1..=UNIFIED).contains(&kind);
    require(known(copy.from.kind) && known(copy.to.kind))?;
    let state = state()?;
    for side in [&copy.from, &copy.to] {
        require(side.kind != ARRAY || state.arrays.get(side.array).is_some())?;
    }
    Ok(Work::Copy(copy))
}

/// Work of a fill.
pub fn fill_work(parameters: CuMemsetNodeParams) -> Answer<Work> {
    fill::check(&parameters)?;
    Ok(Work::Fill(parameters))
}

/// Work of the program's.
pub fn host_work(parameters: CuHostNodeParams) -> Answer<Work> {
    require(parameters.function != 0)?;
    Ok(Work::Host(parameters))
}

fn event_work(event: Handle, make: fn(usize) -> Work) -> Answer<Work> {
    let known = state()?.events.get(event).is_some();
    require(known)?;
    Ok(make(event))
}

fn add(out: Out<Handle>, graph: Handle, after: &[Handle], work: Work) -> Answer {
    require(!out.is_null())?;
    out.put(state()?.graphs.add(graph, after, work)?)
}

/// Makes functions that add a node of one kind: the parameters after the common ones, and the work
/// that they mean.
macro_rules! adders {
    ($($doc:literal $name:ident ($($argument:ident: $kind:ty),*) = $work:expr;)*) => {$(
        #[doc = $doc]
        pub extern "C" fn $name(
            out: Out<Handle>,
            graph: Handle,
            after: In<Handle>,
            count: usize,
            $($argument: $kind),*
        ) -> CuResult {
            answer(|| {
                let work = $work;
                add(out, graph, &after.list(count)?, work)
            })
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

/// A child node: of a clone, or of the graph itself, which is then the node's.
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

/// `cuGraphAddChildGraphNode`: of a clone.
pub extern "C" fn add_child(
    out: Out<Handle>,
    graph: Handle,
    after: In<Handle>,
    count: usize,
    child: Handle,
) -> CuResult {
    answer(|| {
        require(!out.is_null())?;
        let child = CuChildGraphNodeParams {
            graph: CuGraph(child as *mut _),
            ownership: CuChildGraphNodeParams::CLONE,
        };
        let after = after.list(count)?;
        out.put(add_child_to(&mut *state()?, graph, &after, child)?)
    })
}

/// `cuGraphChildGraphNodeGetGraph`.
pub extern "C" fn get_child(node: Handle, graph: Out<Handle>) -> CuResult {
    answer(|| match state()?.graphs.node(node)?.work {
        Work::Graph(child) => graph.put(child),
        _ => Err(CuResult::INVALID_VALUE),
    })
}

/// The member of the parameters' union that the type says is there.
fn member<T: Copy>(parameters: &CuGraphNodeParams) -> T {
    debug_assert!(size_of::<T>() <= size_of::<CuGraphNodeUnion>());
    // SAFETY: every member of the union is plain data without invalid values, starts where the union
    // does, and is no larger; the C caller filled the member that the type names.
    unsafe {
        std::ptr::from_ref(&parameters.parameters)
            .cast::<T>()
            .read_unaligned()
    }
}

/// Writes such a member.
fn put_member<T: Copy>(parameters: &mut CuGraphNodeParams, value: T) {
    debug_assert!(size_of::<T>() <= size_of::<CuGraphNodeUnion>());
    let place = std::ptr::from_mut(&mut parameters.parameters).cast::<T>();
    // SAFETY: as in `member`; the place is ours.
    unsafe { place.write_unaligned(value) };
}

/// The work that parameters mean, of nodes without memory or children.
pub fn work_of(parameters: &CuGraphNodeParams) -> Answer<Work> {
    match parameters.kind.0 {
        0 => kernel_work(member(parameters)),
        1 => copy_work(member::<MemcpyParams>(parameters).copy),
        2 => fill_work(member(parameters)),
        3 => host_work(member(parameters)),
        5 => Ok(Work::Empty),
        6 => event_work(member(parameters), Work::Wait),
        7 => event_work(member(parameters), Work::Record),
        // Semaphores, batches of memory operations, conditions.
        8 | 9 | 12 | 13 => Err(CuResult::NOT_SUPPORTED),
        _ => Err(CuResult::INVALID_VALUE),
    }
}

/// `cuGraphAddNode`.
pub extern "C" fn add_node(
    out: Out<Handle>,
    graph: Handle,
    after: In<Handle>,
    count: usize,
    parameters: Out<CuGraphNodeParams>,
) -> CuResult {
    answer(|| {
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
            CuGraphNodeType::MEM_FREE => {
                out.put(state()?.add_free(graph, &after, member(&wanted))?)
            }
            CuGraphNodeType::GRAPH => out.put(add_child_to(
                &mut *state()?,
                graph,
                &after,
                member(&wanted),
            )?),
            _ => add(out, graph, &after, work_of(&wanted)?),
        }
    })
}

/// `cuGraphAddNode_v2`, `_v3`: the edges' data says how kernels overlap, which they never do. The third
/// form only checks more of a kernel's context.
pub extern "C" fn add_node_v2(
    out: Out<Handle>,
    graph: Handle,
    after: In<Handle>,
    _data: Handle,
    count: usize,
    parameters: Out<CuGraphNodeParams>,
) -> CuResult {
    add_node(out, graph, after, count, parameters)
}

/// `cuGraphNodeGetParams`.
pub extern "C" fn get_node(node: Handle, out: Out<CuGraphNodeParams>) -> CuResult {
    answer(|| {
        let state = state()?;
        let work = &state.graphs.node(node)?.work;
        let mut told = CuGraphNodeParams {
            kind: CuGraphNodeType(work.kind()),
            reserved0: [0; 3],
            parameters: CuGraphNodeUnion { words: [0; 29] },
            reserved2: 0,
        };
        match *work {
            Work::Kernel(kernel) => put_member(&mut told, kernel),
            Work::Copy(copy) => put_member(
                &mut told,
                MemcpyParams {
                    flags: 0,
                    reserved: 0,
                    context: 0,
                    copy,
                },
            ),
            Work::Fill(fill) => put_member(&mut told, fill),
            Work::Host(host) => put_member(&mut told, host),
            // A child that is told of belongs to its node: its ownership is "invalid".
            Work::Graph(graph) => put_member(
                &mut told,
                CuChildGraphNodeParams {
                    graph: CuGraph(graph as *mut _),
                    ownership: u32::MAX,
                },
            ),
            Work::Empty => {}
            Work::Wait(event) | Work::Record(event) => put_member(&mut told, event),
            Work::Allocate(address) => {
                put_member(&mut told, graph_memory::parameters_of(&state, address)?);
            }
            Work::Free(address) => put_member(&mut told, address),
        }
        out.put(told)
    })
}

/// Gives a node other work of the same kind.
fn set(node: Handle, work: Work) -> Answer {
    let mut state = state()?;
    let found = state.graphs.node_mut(node)?;
    require(found.work.kind() == work.kind() && !work.is_memory())?;
    found.work = work;
    Ok(())
}

/// `cuGraphNodeSetParams`.
pub extern "C" fn set_node(node: Handle, parameters: In<CuGraphNodeParams>) -> CuResult {
    answer(|| set(node, work_of(&parameters.get()?)?))
}

/// Makes the functions that tell and set the parameters of one kind of node.
macro_rules! parameters {
    ($($doc:literal $get:ident $set:ident $kind:ident $type:ty = $told:expr, $work:expr;)*) => {$(
        #[doc = concat!($doc, "GetParams`.")]
        pub extern "C" fn $get(node: Handle, out: Out<$type>) -> CuResult {
            answer(|| match state()?.graphs.node(node)?.work {
                Work::$kind(found) => out.put($told(found)),
                _ => Err(CuResult::INVALID_VALUE),
            })
        }

        #[doc = concat!($doc, "SetParams`.")]
        pub extern "C" fn $set(node: Handle, parameters: In<$type>) -> CuResult {
            answer(|| set(node, $work(parameters.get()?)?))
        }
    )*};
}

/// A fill as the older functions tell it.
fn fill_v1(found: CuMemsetNodeParams) -> MemsetParamsV1 {
    MemsetParamsV1 {
        to: found.to,
        pitch: found.pitch,
        value: found.value,
        element_bytes: found.element_bytes,
        columns: found.columns,
        rows: found.rows,
    }
}

fn same<T>(found: T) -> T {
    found
}

parameters! {
    "`cuGraphKernelNode" get_kernel_v1 set_kernel_v1 Kernel KernelParamsV1
        = KernelParamsV1::from, |new: KernelParamsV1| kernel_work(new.into());
    "`cuGraphKernelNode (_v2) " get_kernel set_kernel Kernel CuKernelNodeParams
        = same, kernel_work;
    "`cuGraphMemcpyNode" get_copy set_copy Copy CuMemcpy3d = same, copy_work;
    "`cuGraphMemsetNode" get_fill set_fill Fill MemsetParamsV1
        = fill_v1, |new: MemsetParamsV1| fill_work(new.with(0));
    "`cuGraphHostNode" get_host set_host Host CuHostNodeParams = same, host_work;
}

/// `cuGraphEventRecordNodeGetEvent`, `cuGraphEventWaitNodeGetEvent`.
pub extern "C" fn get_event(node: Handle, event: Out<Handle>) -> CuResult {
    answer(|| match state()?.graphs.node(node)?.work {
        Work::Wait(found) | Work::Record(found) => event.put(found),
        _ => Err(CuResult::INVALID_VALUE),
    })
}

/// `cuGraphEventRecordNodeSetEvent`.
pub extern "C" fn set_record(node: Handle, event: Handle) -> CuResult {
    answer(|| set(node, event_work(event, Work::Record)?))
}

/// `cuGraphEventWaitNodeSetEvent`.
pub extern "C" fn set_wait(node: Handle, event: Handle) -> CuResult {
    answer(|| set(node, event_work(event, Work::Wait)?))
}

/// `cuGraphKernelNodeGetAttribute`: zero, unless it was set. Of the value, which has grown with
/// CUDA's versions, only the first members are kept.
pub extern "C" fn get_attribute(node: Handle, attribute: u32, value: Out<[u8; 32]>) -> CuResult {
    answer(|| {
        let state = state()?;
        let found = state.graphs.node(node)?;
        require(matches!(found.work, Work::Kernel(_)))?;
        value.put(found.attributes.get(&attribute).copied().unwrap_or([0; 32]))
    })
}

/// `cuGraphKernelNodeSetAttribute`.
pub extern "C" fn set_attribute(node: Handle, attribute: u32, value: In<[u8; 32]>) -> CuResult {
    answer(|| {
        let value = value.get()?;
        let mut state = state()?;
        let found = state.graphs.node_mut(node)?;
        require(matches!(found.work, Work::Kernel(_)))?;
        found.attributes.insert(attribute, value);
        Ok(())
    })
}

/// `cuGraphKernelNodeCopyAttributes`.
pub extern "C" fn copy_attributes(to: Handle, from: Handle) -> CuResult {
    answer(|| {
        let mut state = state()?;
        let copied = state.graphs.node(from)?.attributes.clone();
        state.graphs.node_mut(to)?.attributes = copied;
        Ok(())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_structures_have_cudas_sizes() {
        assert_eq!(size_of::<KernelParamsV1>(), 56);
        assert_eq!(size_of::<MemsetParamsV1>(), 40);
        assert_eq!(size_of::<MemcpyParams>(), 216);
        assert_eq!(size_of::<CuChildGraphNodeParams>(), 16);
    }
}
