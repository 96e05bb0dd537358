//! The parameters and attributes of a graph's nodes, read and set.

use super::graph_memory;
use super::graph_work::{
    KernelParamsV1, MemcpyParams, MemsetParamsV1, copy_work, event_work, fill_work, host_work,
    kernel_work, put_member, work_of,
};
use crate::ffi::{Answer, CuError, Handle, In, Out, require};
use crate::model::graph::Work;
use crate::model::state::state;
use gpumem_cuda_abi::{
    CuChildGraphNodeParams, CuGraph, CuGraphNodeParams, CuGraphNodeType, CuGraphNodeUnion,
    CuHostNodeParams, CuKernelNodeParams, CuMemcpy3d,
};

/// `cuGraphChildGraphNodeGetGraph`.
pub extern "C" fn get_child(node: Handle, graph: Out<Handle>) -> Answer {
    match state()?.graphs.node(node)?.work {
        Work::Graph(child) => graph.put(child),
        _ => Err(CuError::INVALID_VALUE),
    }
}

/// `cuGraphNodeGetParams`.
pub extern "C" fn get_node(node: Handle, out: Out<CuGraphNodeParams>) -> Answer {
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
        // The child of a queried node belongs to the node: its ownership is "invalid".
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
}

/// Replaces a node's work with other work of the same kind.
fn set(node: Handle, work: Work) -> Answer {
    let mut state = state()?;
    let found = state.graphs.node_mut(node)?;
    require(found.work.kind() == work.kind() && !work.is_memory())?;
    found.work = work;
    Ok(())
}

/// `cuGraphNodeSetParams`.
pub extern "C" fn set_node(node: Handle, parameters: In<CuGraphNodeParams>) -> Answer {
    set(node, work_of(&parameters.get()?)?)
}

/// Makes the functions that return and set the parameters of one kind of node.
macro_rules! parameters {
    ($($doc:literal $get:ident $set:ident $kind:ident $type:ty = $told:expr, $work:expr;)*) => {$(
        #[doc = concat!($doc, "GetParams`.")]
        pub extern "C" fn $get(node: Handle, out: Out<$type>) -> Answer {
            match state()?.graphs.node(node)?.work {
                Work::$kind(found) => out.put($told(found)),
                _ => Err(CuError::INVALID_VALUE),
            }
        }

        #[doc = concat!($doc, "SetParams`.")]
        pub extern "C" fn $set(node: Handle, parameters: In<$type>) -> Answer {
            set(node, $work(parameters.get()?)?)
        }
    )*};
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
        = MemsetParamsV1::from, |new: MemsetParamsV1| fill_work(new.with(0));
    "`cuGraphHostNode" get_host set_host Host CuHostNodeParams = same, host_work;
}

/// `cuGraphEventRecordNodeGetEvent`, `cuGraphEventWaitNodeGetEvent`.
pub extern "C" fn get_event(node: Handle, event: Out<Handle>) -> Answer {
    match state()?.graphs.node(node)?.work {
        Work::Wait(found) | Work::Record(found) => event.put(found),
        _ => Err(CuError::INVALID_VALUE),
    }
}

/// `cuGraphEventRecordNodeSetEvent`.
pub extern "C" fn set_record(node: Handle, event: Handle) -> Answer {
    set(node, event_work(event, Work::Record)?)
}

/// `cuGraphEventWaitNodeSetEvent`.
pub extern "C" fn set_wait(node: Handle, event: Handle) -> Answer {
    set(node, event_work(event, Work::Wait)?)
}

/// `cuGraphKernelNodeGetAttribute`: zero, unless it was set. Only the first members of the value
/// are kept, because its size has grown with CUDA's versions.
pub extern "C" fn get_attribute(node: Handle, attribute: u32, value: Out<[u8; 32]>) -> Answer {
    let state = state()?;
    let found = state.graphs.node(node)?;
    require(matches!(found.work, Work::Kernel(_)))?;
    value.put(found.attributes.get(&attribute).copied().unwrap_or([0; 32]))
}

/// `cuGraphKernelNodeSetAttribute`.
pub extern "C" fn set_attribute(node: Handle, attribute: u32, value: In<[u8; 32]>) -> Answer {
    let value = value.get()?;
    let mut state = state()?;
    let found = state.graphs.node_mut(node)?;
    require(matches!(found.work, Work::Kernel(_)))?;
    found.attributes.insert(attribute, value);
    Ok(())
}

/// `cuGraphKernelNodeCopyAttributes`.
pub extern "C" fn copy_attributes(to: Handle, from: Handle) -> Answer {
    let mut state = state()?;
    let copied = state.graphs.node(from)?.attributes.clone();
    state.graphs.node_mut(to)?.attributes = copied;
    Ok(())
}
