//! Stream capture.

use super::on_stream::on_stream;
use crate::ffi::{Answer, Handle, In, Out, require};
use crate::model::capture::{GLOBAL, exchange_mode as exchange};
use crate::model::state::state;
use crate::model::stream::On;
use crate::model::user_object::Ended;

/// `CUstreamCaptureStatus`.
const NONE: u32 = 0;
const ACTIVE: u32 = 1;
const INVALIDATED: u32 = 2;

/// `cuThreadExchangeStreamCaptureMode`.
pub extern "C" fn exchange_mode(mode: Out<u32>) -> Answer {
    let wanted = mode.get()?;
    require(wanted <= 2)?;
    mode.put(exchange(wanted))
}

/// The first version, of CUDA 10.0, had only this mode.
fn begin_globally_on(on: On) -> Answer {
    begin_on(on, GLOBAL)
}

fn begin_on(on: On, mode: u32) -> Answer {
    state()?.begin_capture(on, None, mode)
}

fn begin_in_graph_on(
    on: On,
    graph: Handle,
    nodes: In<Handle>,
    _edges: Handle,
    count: usize,
    mode: u32,
) -> Answer {
    let nodes = nodes.list(count)?;
    state()?.begin_capture(on, Some((graph, nodes)), mode)
}

fn end_on(on: On, graph: Out<Handle>) -> Answer {
    require(!graph.is_null())?;
    let mut left = Ended::default();
    let ended = state()?.end_capture(on, &mut left);
    left.run();
    match ended {
        Ok(made) => graph.put(made),
        Err(code) => {
            graph.put(0)?;
            Err(code)
        }
    }
}

fn is_capturing_on(on: On, status: Out<u32>) -> Answer {
    get_info(on, status, Wanted::default())
}

/// Output parameters of a capture query.
#[derive(Clone, Copy, Default)]
struct Wanted {
    id: Option<Out<u64>>,
    graph: Option<Out<Handle>>,
    nodes: Option<Out<usize>>,
    edges: Option<Out<usize>>,
    count: Option<Out<usize>>,
}

fn tell<T>(place: Option<Out<T>>, value: T) {
    if let Some(place) = place {
        place.put_if_asked(value);
    }
}

/// Without a capture only the status is written.
fn get_info(on: On, status: Out<u32>, wanted: Wanted) -> Answer {
    require(!status.is_null())?;
    let mut state = state()?;
    let at = state.stream_at(on)?;
    state.check_legacy(on, at, false)?;
    let Some((id, capture, tip)) = state.captures.of(on) else {
        return status.put(NONE);
    };
    status.put(if capture.valid { ACTIVE } else { INVALIDATED })?;
    if capture.valid {
        tell(wanted.id, id);
        tell(wanted.graph, capture.graph);
        tell(wanted.nodes, tip.nodes.as_ptr() as usize);
        tell(wanted.edges, tip.edges.as_ptr() as usize);
        tell(wanted.count, tip.nodes.len());
    }
    Ok(())
}

fn get_info_on(on: On, status: Out<u32>, id: Out<u64>) -> Answer {
    let wanted = Wanted {
        id: Some(id),
        ..Wanted::default()
    };
    get_info(on, status, wanted)
}

fn get_info_v2_on(
    on: On,
    status: Out<u32>,
    id: Out<u64>,
    graph: Out<Handle>,
    nodes: Out<usize>,
    count: Out<usize>,
) -> Answer {
    let wanted = Wanted {
        id: Some(id),
        graph: Some(graph),
        nodes: Some(nodes),
        edges: None,
        count: Some(count),
    };
    get_info(on, status, wanted)
}

fn get_info_v3_on(
    on: On,
    status: Out<u32>,
    id: Out<u64>,
    graph: Out<Handle>,
    nodes: Out<usize>,
    edges: Out<usize>,
    count: Out<usize>,
) -> Answer {
    let wanted = Wanted {
        id: Some(id),
        graph: Some(graph),
        nodes: Some(nodes),
        edges: Some(edges),
        count: Some(count),
    };
    get_info(on, status, wanted)
}

fn update_on(on: On, nodes: In<Handle>, count: usize, flags: u32) -> Answer {
    require(flags <= 1)?;
    let nodes = nodes.list(count)?;
    state()?.update_tip(on, nodes, flags == 1)
}

fn update_v2_on(on: On, nodes: In<Handle>, _edges: Handle, count: usize, flags: u32) -> Answer {
    update_on(on, nodes, count, flags)
}

on_stream! {
    "`cuStreamBeginCapture`." begin_globally begin_globally_own [] [] = begin_globally_on;
    "`cuStreamBeginCapture_v2`." begin begin_own [] [mode: u32] = begin_on;
    "`cuStreamBeginCaptureToGraph`." begin_in_graph begin_in_graph_own
        [] [graph: Handle, nodes: In<Handle>, edges: Handle, count: usize, mode: u32]
        = begin_in_graph_on;
    "`cuStreamEndCapture`." end end_own [] [graph: Out<Handle>] = end_on;
    "`cuStreamIsCapturing`." is_capturing is_capturing_own
        [] [status: Out<u32>] = is_capturing_on;
    "`cuStreamGetCaptureInfo`." get_info_first get_info_own
        [] [status: Out<u32>, id: Out<u64>] = get_info_on;
    "`cuStreamGetCaptureInfo_v2`." get_info_v2 get_info_v2_own
        [] [status: Out<u32>, id: Out<u64>, graph: Out<Handle>, nodes: Out<usize>,
            count: Out<usize>] = get_info_v2_on;
    "`cuStreamGetCaptureInfo_v3`." get_info_v3 get_info_v3_own
        [] [status: Out<u32>, id: Out<u64>, graph: Out<Handle>, nodes: Out<usize>,
            edges: Out<usize>, count: Out<usize>] = get_info_v3_on;
    "`cuStreamUpdateCaptureDependencies`." update update_own
        [] [nodes: In<Handle>, count: usize, flags: u32] = update_on;
    "`cuStreamUpdateCaptureDependencies_v2`." update_v2 update_v2_own
        [] [nodes: In<Handle>, edges: Handle, count: usize, flags: u32] = update_v2_on;
}
