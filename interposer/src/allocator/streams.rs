//! PyTorch's streams: its numbers of them, and CUDA's handles.

use gpumem_capture::DeviceOrdinal;
use gpumem_torch_abi::Stream;

use super::found;

/// The device of a stream.
pub(super) fn device_of(stream: Stream) -> DeviceOrdinal {
    DeviceOrdinal((stream.device >> 8) as u8)
}

/// CUDA's handle of a stream.
pub(super) fn handle_of(stream: &Stream) -> Option<u64> {
    let function = found::stream_functions()?.handle;
    // SAFETY: the address is that of `CUDAStream::stream() const`; the stream is PyTorch's own.
    let handle: extern "C-unwind" fn(&Stream) -> u64 = unsafe { core::mem::transmute(function) };
    Some(handle(stream))
}

/// The calling thread's stream on a device.
pub(super) fn current(device: DeviceOrdinal) -> Option<Stream> {
    let function = found::stream_functions()?.current;
    // SAFETY: the address is that of `c10::cuda::getCurrentCUDAStream(signed char)`, which gives two words.
    let current: extern "C-unwind" fn(i8) -> Stream = unsafe { core::mem::transmute(function) };
    Some(current(device.0.cast_signed()))
}

/// The handle of the calling thread's stream.
pub(super) fn current_handle(device: DeviceOrdinal) -> Option<u64> {
    handle_of(&current(device)?)
}

/// PyTorch's number of a stream that the calling thread allocates on; None if it is not its current one.
pub(super) fn id_of(device: DeviceOrdinal, handle: u64) -> Option<u64> {
    let current = current(device)?;
    (handle_of(&current)? == handle).then_some(current.id)
}
