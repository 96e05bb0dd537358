//! Streams, events, capture, callbacks.

use super::functions;
use crate::ffi::{Address, Handle, Out};

functions! { super::STREAM;
    cuStreamCreate 2000 (stream: Out<Handle>, flags: u32);
    cuStreamCreateWithPriority 5050 (stream: Out<Handle>, flags: u32, priority: i32);
    cuStreamGetPriority 5050 (stream: Handle, priority: Out<i32>);
    cuStreamGetFlags 5050 (stream: Handle, flags: Out<u32>);
    cuStreamGetDevice 12080 (stream: Handle, device: Out<i32>);
    cuStreamGetId 12000 (stream: Handle, id: Out<u64>);
    cuStreamDestroy 4000 (stream: Handle);
    cuStreamWaitEvent 3020 (stream: Handle, event: Handle, flags: u32);
    cuStreamAddCallback 5000 (stream: Handle, callback: Address, data: Address, flags: u32);
    cuStreamSynchronize 2000 (stream: Handle);
    cuStreamQuery 2000 (stream: Handle);
    cuStreamAttachMemAsync 6000 (stream: Handle, pointer: Address, bytes: usize, flags: u32);
    cuStreamCopyAttributes 11000 (to: Handle, from: Handle);
    cuStreamGetAttribute 11000 (stream: Handle, attribute: u32, value: Address);
    cuStreamSetAttribute 11000 (stream: Handle, attribute: u32, value: Address);
    cuLaunchHostFunc 10000 (stream: Handle, function: Address, data: Address);
    cuEventCreate 2000 (event: Out<Handle>, flags: u32);
    cuEventRecord 2000 (event: Handle, stream: Handle);
    cuEventRecordWithFlags 11010 (event: Handle, stream: Handle, flags: u32);
    cuEventQuery 2000 (event: Handle);
    cuEventSynchronize 2000 (event: Handle);
    cuEventDestroy 4000 (event: Handle);
    cuEventElapsedTime 12080 (milliseconds: Out<f32>, start: Handle, end: Handle);
    cuStreamBeginCapture 10010 (stream: Handle, mode: u32);
    cuStreamBeginCaptureToGraph 12030 (stream: Handle, graph: Handle, nodes: Address, edges: Address, count: usize, mode: u32);
    cuStreamEndCapture 10000 (stream: Handle, graph: Out<Handle>);
    cuStreamIsCapturing 10000 (stream: Handle, status: Out<u32>);
    cuStreamGetCaptureInfo 12030 (stream: Handle, status: Out<u32>, id: Out<u64>, graph: Out<Handle>, nodes: Out<Address>, edges: Out<Address>, count: Out<usize>);
    cuStreamUpdateCaptureDependencies 12030 (stream: Handle, nodes: Address, edges: Address, count: usize, flags: u32);
    cuThreadExchangeStreamCaptureMode 10010 (mode: Out<u32>);
}
