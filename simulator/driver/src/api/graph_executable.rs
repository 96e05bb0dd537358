//! Executable graphs: instantiation, launch, destruction.

use super::on_stream::on_stream;
use super::{copy_box, event, fill, kernel, stream};
use crate::ffi::{Answer, CuError, Handle, Out, require};
use crate::model::State;
use crate::model::context::Current;
use crate::model::executable::UPLOAD;
use crate::model::graph::Work;
use crate::model::state::state;
use crate::model::stream::On;
use gpumem_cuda_abi::{CuGraphInstantiateParams, CuGraphNode};
use std::ffi::c_char;

/// `CUgraphInstantiateResult`.
const INSTANTIATED: u32 = 0;
const ERROR: u32 = 1;
const INVALID_STRUCTURE: u32 = 2;

/// `cuGraphInstantiate` before CUDA 12, both versions: the log stays empty.
pub extern "C" fn instantiate_v2(
    out: Out<Handle>,
    graph: Handle,
    error: Out<Handle>,
    log: Out<c_char>,
    room: usize,
) -> Answer {
    error.put_if_asked(0);
    if room > 0 {
        log.put_if_asked(0);
    }
    require(!out.is_null())?;
    out.put(state()?.instantiate(graph, 0)?)
}

/// `cuGraphInstantiateWithFlags`.
pub extern "C" fn instantiate(out: Out<Handle>, graph: Handle, flags: u64) -> Answer {
    require(!out.is_null() && flags & UPLOAD == 0)?;
    out.put(state()?.instantiate(graph, flags)?)
}

/// `cuGraphInstantiateWithParams`: the stream for the upload has no effect.
pub extern "C" fn instantiate_with(
    out: Out<Handle>,
    graph: Handle,
    parameters: Out<CuGraphInstantiateParams>,
) -> Answer {
    require(!out.is_null())?;
    let mut told = parameters.get()?;
    told.error_node = CuGraphNode::NULL;
    let mut state = state()?;
    let circular = state.graphs.get(graph)?.order().is_err();
    let made = state.instantiate(graph, told.flags);
    told.result = match made {
        Ok(_) => INSTANTIATED,
        Err(_) if circular => INVALID_STRUCTURE,
        Err(_) => ERROR,
    };
    parameters.put(told)?;
    let made = made?;
    if told.flags & UPLOAD != 0
        && let Err(code) = state.upload(made)
    {
        // The caller does not get the executable. The graph also holds all objects that the
        // executable holds.
        let _ = state.destroy_executable(made)?;
        return Err(code);
    }
    out.put(made)
}

/// `cuGraphExecDestroy`.
pub extern "C" fn destroy(executable: Handle) -> Answer {
    let ended = state()?.destroy_executable(executable)?;
    ended.run();
    Ok(())
}

/// `cuGraphExecGetFlags`.
pub extern "C" fn get_flags(executable: Handle, flags: Out<u64>) -> Answer {
    flags.put(state()?.graphs.executable(executable)?.flags & !UPLOAD)
}

/// `cuGraphExecGetId`.
pub extern "C" fn get_id(executable: Handle, id: Out<u32>) -> Answer {
    id.put(state()?.graphs.executable(executable)?.id)
}

fn upload_on(on: On, executable: Handle) -> Answer {
    let mut state = state()?;
    state.not_captured(on)?;
    state.upload(executable)
}

/// All work is done when the call returns. In a capture the graph becomes a child of the captured
/// graph.
fn launch_on(on: On, executable: Handle) -> Answer {
    let (at, launch) = {
        let mut state = state()?;
        let at = state.stream_at(on)?;
        let captured = state.captured(on, |state, graph, after| {
            let child = child_of(state, executable)?;
            state.graphs.add(graph, after, Work::Graph(child))
        })?;
        if captured {
            return Ok(());
        }
        (at, state.begin_launch(executable)?)
    };
    let mut failed = Ok(());
    for work in &launch.works {
        let done = run(work, at);
        failed = failed.and(done);
    }
    state()?.keep_promise(&launch.promised);
    failed
}

/// A graph that does the work of an executable, step by step.
fn child_of(state: &mut State, executable: Handle) -> Answer<Handle> {
    let steps = &state.graphs.executable(executable)?.steps;
    if steps.iter().any(|step| step.work.is_memory()) {
        return Err(CuError::NOT_SUPPORTED);
    }
    let enabled = steps.iter().filter(|step| step.enabled);
    let works: Vec<Work> = enabled.map(|step| step.work.clone()).collect();
    let child = state.graphs.create();
    let mut last: Vec<Handle> = Vec::new();
    for work in works {
        last = vec![state.graphs.add(child, &last, work)?];
    }
    state.graphs.adopt(child)?;
    Ok(child)
}

/// Does the work of one node. An error here would be an asynchronous error on a card.
fn run(work: &Work, at: Current) -> Answer {
    let illegal = |done: Answer| done.map_err(|_| CuError::ILLEGAL_ADDRESS);
    match work {
        Work::Kernel(kernel) => kernel::run(&mut *state()?, kernel, at),
        Work::Copy(copy) => illegal(copy_box::copy_box(copy)),
        Work::Fill(fill) => illegal(fill::fill(fill)),
        Work::Host(host) => {
            stream::call_host(host);
            Ok(())
        }
        Work::Record(event) => event::record_now(*event),
        Work::Allocate(address) => state()?.start_graph_allocation(*address),
        Work::Free(address) => state()?.end_graph_allocation(*address),
        // Nodes of child graphs are separate steps; awaited events have already happened.
        Work::Graph(_) | Work::Empty | Work::Wait(_) => Ok(()),
    }
}

on_stream! {
    "`cuGraphUpload`." upload upload_own [executable: Handle] [] = upload_on;
    "`cuGraphLaunch`." launch launch_own [executable: Handle] [] = launch_on;
}
