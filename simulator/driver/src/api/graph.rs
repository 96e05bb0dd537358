//! Graphs: creation, changes, queries.

use crate::ffi::{Answer, CuError, Handle, In, Out, Text, require};
use crate::model::graph::{Graph, Work};
use crate::model::state::state;
use std::fmt::Write;
use std::os::unix::ffi::OsStrExt;

/// `cuGraphCreate`.
pub extern "C" fn create(out: Out<Handle>, flags: u32) -> Answer {
    require(!out.is_null() && flags == 0)?;
    out.put(state()?.graphs.create())
}

/// `cuGraphDestroy`.
pub extern "C" fn destroy(graph: Handle) -> Answer {
    let ended = state()?.destroy_graph(graph)?;
    ended.run();
    Ok(())
}

/// `cuGraphDestroyNode`.
pub extern "C" fn destroy_node(node: Handle) -> Answer {
    let ended = state()?.destroy_node(node)?;
    ended.run();
    Ok(())
}

/// `cuGraphClone`.
pub extern "C" fn clone(out: Out<Handle>, graph: Handle) -> Answer {
    require(!out.is_null())?;
    out.put(state()?.graphs.clone_graph(graph)?)
}

/// `cuGraphNodeFindInClone`.
pub extern "C" fn find_in_clone(out: Out<Handle>, node: Handle, clone: Handle) -> Answer {
    out.put(state()?.graphs.find_in_clone(node, clone)?)
}

/// Writes a list to each place that is not null. Without a place only the length is returned.
fn put_list(places: &[Out<Handle>], count: Out<usize>, lists: &[Vec<Handle>]) -> Answer {
    let length = lists.first().map_or(0, Vec::len);
    if places.iter().all(|place| place.is_null()) {
        return count.put(length);
    }
    let room = count.get()?;
    for (place, list) in places.iter().zip(lists) {
        place.put_all(&list[..length.min(room)])?;
        // CUDA sets the remaining places to null.
        for index in length..room {
            place.put_at(index, 0)?;
        }
    }
    count.put(length.min(room))
}

/// Writes the data of that many edges, all zero, if requested.
fn put_edges(edges: Out<[u8; 8]>, wanted: bool, count: Out<usize>) -> Answer {
    if edges.is_null() || !wanted {
        return Ok(());
    }
    edges.put_all(&vec![[0; 8]; count.get()?])
}

/// `cuGraphGetNodes`.
pub extern "C" fn get_nodes(graph: Handle, nodes: Out<Handle>, count: Out<usize>) -> Answer {
    let all = state()?.graphs.get(graph)?.nodes.keys().copied().collect();
    put_list(&[nodes], count, &[all])
}

/// `cuGraphGetRootNodes`.
pub extern "C" fn get_root_nodes(graph: Handle, nodes: Out<Handle>, count: Out<usize>) -> Answer {
    let state = state()?;
    let all = state.graphs.get(graph)?.nodes.iter();
    let roots = all.filter(|(_, node)| node.after.is_empty());
    put_list(
        &[nodes],
        count,
        &[roots.map(|(handle, _)| *handle).collect()],
    )
}

fn edges_of(graph: &Graph) -> (Vec<Handle>, Vec<Handle>) {
    let all = graph.nodes.iter();
    let edges = all.flat_map(|(to, node)| node.after.iter().map(|from| (*from, *to)));
    edges.unzip()
}

/// `cuGraphGetEdges`.
pub extern "C" fn get_edges(
    graph: Handle,
    from: Out<Handle>,
    to: Out<Handle>,
    count: Out<usize>,
) -> Answer {
    let edges = edges_of(state()?.graphs.get(graph)?);
    require(from.is_null() == to.is_null())?;
    put_list(&[from, to], count, &[edges.0, edges.1])
}

/// `cuGraphGetEdges_v2`.
pub extern "C" fn get_edges_v2(
    graph: Handle,
    from: Out<Handle>,
    to: Out<Handle>,
    data: Out<[u8; 8]>,
    count: Out<usize>,
) -> Answer {
    get_edges(graph, from, to, count)?;
    put_edges(data, !from.is_null(), count)
}

/// `cuGraphNodeGetDependencies`.
pub extern "C" fn get_dependencies(node: Handle, nodes: Out<Handle>, count: Out<usize>) -> Answer {
    let before = state()?.graphs.node(node)?.after.iter().copied().collect();
    put_list(&[nodes], count, &[before])
}

/// `cuGraphNodeGetDependencies_v2`.
pub extern "C" fn get_dependencies_v2(
    node: Handle,
    nodes: Out<Handle>,
    data: Out<[u8; 8]>,
    count: Out<usize>,
) -> Answer {
    get_dependencies(node, nodes, count)?;
    put_edges(data, !nodes.is_null(), count)
}

/// `cuGraphNodeGetDependentNodes`.
pub extern "C" fn get_dependent(node: Handle, nodes: Out<Handle>, count: Out<usize>) -> Answer {
    let state = state()?;
    let graph = state.graphs.get(state.graphs.graph_of(node)?)?;
    let later = graph.nodes.iter();
    let later = later.filter(|(_, other)| other.after.contains(&node));
    put_list(
        &[nodes],
        count,
        &[later.map(|(handle, _)| *handle).collect()],
    )
}

/// `cuGraphNodeGetDependentNodes_v2`.
pub extern "C" fn get_dependent_v2(
    node: Handle,
    nodes: Out<Handle>,
    data: Out<[u8; 8]>,
    count: Out<usize>,
) -> Answer {
    get_dependent(node, nodes, count)?;
    put_edges(data, !nodes.is_null(), count)
}

/// `cuGraphAddDependencies`.
pub extern "C" fn connect(graph: Handle, from: In<Handle>, to: In<Handle>, count: usize) -> Answer {
    let (from, to) = (from.list(count)?, to.list(count)?);
    state()?.graphs.connect(graph, &from, &to)
}

/// `cuGraphAddDependencies_v2`: the edges' data defines how kernels overlap, which has no effect
/// here.
pub extern "C" fn connect_v2(
    graph: Handle,
    from: In<Handle>,
    to: In<Handle>,
    _data: Handle,
    count: usize,
) -> Answer {
    connect(graph, from, to, count)
}

/// `cuGraphRemoveDependencies`.
pub extern "C" fn disconnect(
    graph: Handle,
    from: In<Handle>,
    to: In<Handle>,
    count: usize,
) -> Answer {
    let (from, to) = (from.list(count)?, to.list(count)?);
    state()?.graphs.disconnect(graph, &from, &to)
}

/// `cuGraphRemoveDependencies_v2`.
pub extern "C" fn disconnect_v2(
    graph: Handle,
    from: In<Handle>,
    to: In<Handle>,
    _data: Handle,
    count: usize,
) -> Answer {
    disconnect(graph, from, to, count)
}

/// `cuGraphNodeGetType`.
pub extern "C" fn get_kind(node: Handle, kind: Out<u32>) -> Answer {
    kind.put(state()?.graphs.node(node)?.work.kind())
}

/// `cuGraphGetId`.
pub extern "C" fn get_id(graph: Handle, id: Out<u32>) -> Answer {
    id.put(state()?.graphs.get(graph)?.id)
}

/// `cuGraphNodeGetContainingGraph`.
pub extern "C" fn get_graph(node: Handle, graph: Out<Handle>) -> Answer {
    graph.put(state()?.graphs.graph_of(node)?)
}

/// `cuGraphNodeGetLocalId`.
pub extern "C" fn get_local_id(node: Handle, id: Out<u32>) -> Answer {
    id.put(state()?.graphs.node(node)?.local_id)
}

/// `cuGraphNodeGetToolsId`: the graph's number in the upper half, the node's in the lower half.
pub extern "C" fn get_tools_id(node: Handle, id: Out<u64>) -> Answer {
    let state = state()?;
    let graph = state.graphs.get(state.graphs.graph_of(node)?)?.id;
    let local = state.graphs.node(node)?.local_id;
    id.put(u64::from(graph) << 32 | u64::from(local))
}

/// `cuGraphDebugDotPrint`: nodes with their kinds, and edges.
pub extern "C" fn draw(graph: Handle, path: Text, _flags: u32) -> Answer {
    let path = std::ffi::OsStr::from_bytes(path.get()?.to_bytes());
    let mut text = String::from("digraph dot {\n");
    {
        let state = state()?;
        let found = state.graphs.get(graph)?;
        for (handle, node) in &found.nodes {
            let (id, name) = (node.local_id, node.work.name());
            let _ = match node.work {
                Work::Allocate(address) | Work::Free(address) => {
                    writeln!(
                        text,
                        "\"{handle:#x}\" [label=\"{id} {name} {address:#x}\"];"
                    )
                }
                _ => writeln!(text, "\"{handle:#x}\" [label=\"{id} {name}\"];"),
            };
            for before in &node.after {
                let _ = writeln!(text, "\"{before:#x}\" -> \"{handle:#x}\";");
            }
        }
    }
    text.push_str("}\n");
    std::fs::write(path, text).map_err(|_| CuError::OPERATING_SYSTEM)
}
