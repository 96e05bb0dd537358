//! Graphs and user objects.

use super::{OwnStream, exports};
use crate::stream;
use gpumem_sim_client::cu;
use gpumem_sim_client::ffi::{Address, Handle, Out};

exports! {
    context cudaGraphCreate (graph: Out<Handle>, flags: u32) = cu::cuGraphCreate;
    context cudaGraphClone (clone: Out<Handle>, graph: Handle) = cu::cuGraphClone;
    context cudaGraphDestroy (graph: Handle) = cu::cuGraphDestroy;
    context cudaGraphDestroyNode (node: Handle) = cu::cuGraphDestroyNode;
    context cudaGraphGetNodes (graph: Handle, nodes: Address, count: Out<usize>) = cu::cuGraphGetNodes;
    context cudaGraphGetRootNodes (graph: Handle, nodes: Address, count: Out<usize>) = cu::cuGraphGetRootNodes;
    context cudaGraphGetEdges (graph: Handle, from: Address, to: Address, data: Address, count: Out<usize>) = cu::cuGraphGetEdges;
    context cudaGraphNodeGetType (node: Handle, kind: Out<u32>) = cu::cuGraphNodeGetType;
    context cudaGraphNodeGetDependencies (node: Handle, nodes: Address, data: Address, count: Out<usize>) = cu::cuGraphNodeGetDependencies;
    context cudaGraphNodeGetDependentNodes (node: Handle, nodes: Address, data: Address, count: Out<usize>) = cu::cuGraphNodeGetDependentNodes;
    context cudaGraphAddDependencies (graph: Handle, from: Address, to: Address, data: Address, count: usize) = cu::cuGraphAddDependencies;
    context cudaGraphAddEmptyNode (node: Out<Handle>, graph: Handle, dependencies: Address, count: usize) = cu::cuGraphAddEmptyNode;
    context cudaGraphAddChildGraphNode (node: Out<Handle>, graph: Handle, dependencies: Address, count: usize, child: Handle) = cu::cuGraphAddChildGraphNode;
    context cudaGraphAddMemAllocNode (node: Out<Handle>, graph: Handle, dependencies: Address, count: usize, parameters: Address) = cu::cuGraphAddMemAllocNode;
    context cudaGraphMemAllocNodeGetParams (node: Handle, parameters: Address) = cu::cuGraphMemAllocNodeGetParams;
    context cudaGraphAddMemFreeNode (node: Out<Handle>, graph: Handle, dependencies: Address, count: usize, pointer: Address) = cu::cuGraphAddMemFreeNode;
    context cudaGraphMemFreeNodeGetParams (node: Handle, pointer: Address) = cu::cuGraphMemFreeNodeGetParams;
    context cudaGraphInstantiate (executable: Out<Handle>, graph: Handle, flags: u64) = cu::cuGraphInstantiateWithFlags;
    context cudaGraphInstantiateWithFlags (executable: Out<Handle>, graph: Handle, flags: u64) = cu::cuGraphInstantiateWithFlags;
    context cudaGraphUpload (executable: Handle, stream: Handle) = cu::cuGraphUpload;
    context cudaGraphUpload_ptsz (executable: Handle, stream: OwnStream) = cu::cuGraphUpload;
    context cudaGraphLaunch (executable: Handle, stream: Handle) = cu::cuGraphLaunch;
    context cudaGraphLaunch_ptsz (executable: Handle, stream: Handle) = cu::cuGraphLaunch_ptsz;
    context cudaGraphExecDestroy (executable: Handle) = cu::cuGraphExecDestroy;
    context cudaGraphDebugDotPrint (graph: Handle, path: Address, flags: u32) = cu::cuGraphDebugDotPrint;
    context cudaGraphConditionalHandleCreate (conditional: Out<u64>, graph: Handle, first: u32, flags: u32) = stream::create_conditional;
    context cudaGraphConditionalHandleCreate_v2 (conditional: Out<u64>, graph: Handle, context: Handle, first: u32, flags: u32) = cu::cuGraphConditionalHandleCreate;
    context cudaGraphRetainUserObject (graph: Handle, object: Handle, count: u32, flags: u32) = cu::cuGraphRetainUserObject;
    context cudaGraphReleaseUserObject (graph: Handle, object: Handle, count: u32) = cu::cuGraphReleaseUserObject;
    driver cudaUserObjectCreate (object: Out<Handle>, pointer: Address, destroy: Address, references: u32, flags: u32) = cu::cuUserObjectCreate;
    driver cudaUserObjectRetain (object: Handle, count: u32) = cu::cuUserObjectRetain;
    driver cudaUserObjectRelease (object: Handle, count: u32) = cu::cuUserObjectRelease;
}
