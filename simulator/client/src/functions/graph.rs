//! Graphs and user objects: passed on, whatever the driver does with them.

use super::functions;
use crate::ffi::{Address, Handle, Out};

functions! { super::GRAPH;
    cuGraphCreate 10000 (graph: Out<Handle>, flags: u32);
    cuGraphClone 10000 (clone: Out<Handle>, graph: Handle);
    cuGraphDestroy 10000 (graph: Handle);
    cuGraphDestroyNode 10000 (node: Handle);
    cuGraphGetNodes 10000 (graph: Handle, nodes: Address, count: Out<usize>);
    cuGraphGetRootNodes 10000 (graph: Handle, nodes: Address, count: Out<usize>);
    cuGraphGetEdges 12030 (graph: Handle, from: Address, to: Address, data: Address, count: Out<usize>);
    cuGraphNodeGetType 10000 (node: Handle, kind: Out<u32>);
    cuGraphNodeGetDependencies 12030 (node: Handle, nodes: Address, data: Address, count: Out<usize>);
    cuGraphNodeGetDependentNodes 12030 (node: Handle, nodes: Address, data: Address, count: Out<usize>);
    cuGraphAddDependencies 12030 (graph: Handle, from: Address, to: Address, data: Address, count: usize);
    cuGraphAddEmptyNode 10000 (node: Out<Handle>, graph: Handle, dependencies: Address, count: usize);
    cuGraphAddChildGraphNode 10000 (node: Out<Handle>, graph: Handle, dependencies: Address, count: usize, child: Handle);
    cuGraphAddMemAllocNode 11040 (node: Out<Handle>, graph: Handle, dependencies: Address, count: usize, parameters: Address);
    cuGraphMemAllocNodeGetParams 11040 (node: Handle, parameters: Address);
    cuGraphAddMemFreeNode 11040 (node: Out<Handle>, graph: Handle, dependencies: Address, count: usize, pointer: Address);
    cuGraphMemFreeNodeGetParams 11040 (node: Handle, pointer: Address);
    cuDeviceGraphMemTrim 11040 (device: i32);
    cuDeviceGetGraphMemAttribute 11040 (device: i32, attribute: u32, value: Address);
    cuDeviceSetGraphMemAttribute 11040 (device: i32, attribute: u32, value: Address);
    cuGraphInstantiateWithFlags 11040 (executable: Out<Handle>, graph: Handle, flags: u64);
    cuGraphUpload 11010 (executable: Handle, stream: Handle);
    cuGraphLaunch 10000 (executable: Handle, stream: Handle);
    cuGraphLaunch_ptsz per_thread cuGraphLaunch 10000 (executable: Handle, stream: Handle);
    cuGraphExecDestroy 10000 (executable: Handle);
    cuGraphConditionalHandleCreate 12030 (conditional: Out<u64>, graph: Handle, context: Handle, first: u32, flags: u32);
    cuGraphDebugDotPrint 11030 (graph: Handle, path: Address, flags: u32);
    cuUserObjectCreate 11030 (object: Out<Handle>, pointer: Address, destroy: Address, references: u32, flags: u32);
    cuUserObjectRetain 11030 (object: Handle, count: u32);
    cuUserObjectRelease 11030 (object: Handle, count: u32);
    cuGraphRetainUserObject 11030 (graph: Handle, object: Handle, count: u32, flags: u32);
    cuGraphReleaseUserObject 11030 (graph: Handle, object: Handle, count: u32);
}
