//! Changes of executable graphs.

use super::graph_work::{KernelParamsV1, copy_work, fill_work, host_work, kernel_work, work_of};
use crate::ffi::{Answer, CuError, Handle, In, Out, require};
use crate::model::graph::Work;
use crate::model::state::state;
use gpumem_cuda_abi::{
    CuGraphExecUpdateResultInfo, CuGraphNode, CuGraphNodeParams, CuHostNodeParams,
    CuKernelNodeParams, CuMemcpy3d, CuMemsetNodeParams,
};

/// `CU_GRAPH_EXEC_UPDATE_ERROR`.
const ERROR: u32 = 1;

fn update_with(
    executable: Handle,
    graph: Handle,
    tell: impl FnOnce(u32, usize) -> Answer,
) -> Answer {
    match state()?.update_executable(executable, graph) {
        Ok(Ok(())) => tell(0, 0),
        Ok(Err(difference)) => {
            tell(difference.result, difference.node)?;
            Err(CuError::GRAPH_EXEC_UPDATE_FAILURE)
        }
        Err(code) => {
            tell(ERROR, 0)?;
            Err(code)
        }
    }
}

/// `cuGraphExecUpdate` before CUDA 12.
pub extern "C" fn update_v1(
    executable: Handle,
    graph: Handle,
    node: Out<Handle>,
    result: Out<u32>,
) -> Answer {
    update_with(executable, graph, |told, at| {
        node.put_if_asked(at);
        result.put(told)
    })
}

/// `cuGraphExecUpdate`.
pub extern "C" fn update(
    executable: Handle,
    graph: Handle,
    info: Out<CuGraphExecUpdateResultInfo>,
) -> Answer {
    update_with(executable, graph, |result, at| {
        info.put(CuGraphExecUpdateResultInfo {
            result,
            error_node: CuGraphNode(at as *mut _),
            error_from_node: CuGraphNode::NULL,
        })
    })
}

/// Replaces the work of a node's step with other work of the same kind.
fn set(executable: Handle, node: Handle, work: Work) -> Answer {
    let mut state = state()?;
    let step = state.graphs.executable_mut(executable)?.step_mut(node)?;
    require(step.work.kind() == work.kind() && !work.is_memory())?;
    step.work = work;
    Ok(())
}

/// Makes functions that set the parameters of one kind of node.
macro_rules! setters {
    ($($doc:literal $name:ident ($($argument:ident: $kind:ty),*) = $work:expr;)*) => {$(
        #[doc = $doc]
        pub extern "C" fn $name(
            executable: Handle,
            node: Handle,
            $($argument: $kind),*
        ) -> Answer {
            let work = $work;
            set(executable, node, work)
        }
    )*};
}

setters! {
    "`cuGraphExecKernelNodeSetParams`." set_kernel_v1 (parameters: In<KernelParamsV1>)
        = kernel_work(parameters.get()?.into())?;
    "`cuGraphExecKernelNodeSetParams_v2`." set_kernel (parameters: In<CuKernelNodeParams>)
        = kernel_work(parameters.get()?)?;
    "`cuGraphExecMemcpyNodeSetParams`." set_copy (copy: In<CuMemcpy3d>)
        = copy_work(copy.get()?)?;
    "`cuGraphExecHostNodeSetParams`." set_host (parameters: In<CuHostNodeParams>)
        = host_work(parameters.get()?)?;
    "`cuGraphExecEventRecordNodeSetEvent`." set_record (event: Handle) = Work::Record(event);
    "`cuGraphExecEventWaitNodeSetEvent`." set_wait (event: Handle) = Work::Wait(event);
    "`cuGraphExecNodeSetParams`." set_node (parameters: In<CuGraphNodeParams>)
        = work_of(&parameters.get()?)?;
}

/// `cuGraphExecMemsetNodeSetParams`.
pub extern "C" fn set_fill(
    executable: Handle,
    node: Handle,
    parameters: In<super::graph_work::MemsetParamsV1>,
    context: Handle,
) -> Answer {
    let fill: CuMemsetNodeParams = parameters.get()?.with(context);
    set(executable, node, fill_work(fill)?)
}

/// `cuGraphNodeSetEnabled`: for kernels, copies and fills.
pub extern "C" fn set_enabled(executable: Handle, node: Handle, enabled: u32) -> Answer {
    let mut state = state()?;
    let step = state.graphs.executable_mut(executable)?.step_mut(node)?;
    require(step.work.kind() <= 2)?;
    step.enabled = enabled != 0;
    Ok(())
}

/// `cuGraphNodeGetEnabled`.
pub extern "C" fn get_enabled(executable: Handle, node: Handle, enabled: Out<u32>) -> Answer {
    let mut state = state()?;
    let step = state.graphs.executable_mut(executable)?.step_mut(node)?;
    require(step.work.kind() <= 2)?;
    enabled.put(step.enabled.into())
}
