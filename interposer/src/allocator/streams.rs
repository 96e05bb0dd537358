//! PyTorch's streams: its numbers of them, and CUDA's handles.

use core::ffi::CStr;

use gpumem_capture::DeviceOrdinal;

use super::slots;

/// `c10::cuda::CUDAStream`, as it travels in two registers: the type in the low byte and the device in the next; and
/// PyTorch's number of the stream, which is the same in each process that takes streams in the same order.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct Stream {
    pub(crate) device: u64,
    pub(crate) id: u64,
}

pub(super) const CURRENT: &CStr = c"_ZN3c104cuda20getCurrentCUDAStreamEa";
pub(super) const HANDLE: &CStr = c"_ZNK3c104cuda10CUDAStream6streamEv";

impl Stream {
    pub(super) fn device(self) -> DeviceOrdinal {
        DeviceOrdinal((self.device >> 8) as u8)
    }

    /// CUDA's handle.
    pub(super) fn handle(&self) -> Option<u64> {
        let function = slots::stream_functions()?.handle;
        // SAFETY: the address is that of `CUDAStream::stream() const`; the stream is PyTorch's own.
        let handle: extern "C-unwind" fn(&Stream) -> u64 =
            unsafe { core::mem::transmute(function) };
        Some(handle(self))
    }
}

/// The calling thread's stream on a device.
pub(super) fn current(device: DeviceOrdinal) -> Option<Stream> {
    let function = slots::stream_functions()?.current;
    // SAFETY: the address is that of `c10::cuda::getCurrentCUDAStream(signed char)`, which gives two words.
    let current: extern "C-unwind" fn(i8) -> Stream = unsafe { core::mem::transmute(function) };
    Some(current(device.0.cast_signed()))
}

/// PyTorch's number of a stream that the calling thread allocates on; None if it is not its current one.
pub(super) fn id_of(device: DeviceOrdinal, handle: u64) -> Option<u64> {
    let current = current(device)?;
    (current.handle()? == handle).then_some(current.id)
}
