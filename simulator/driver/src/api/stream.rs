//! Streams. The simulated device is never busy, so everything that is ordered has happened.

use crate::ffi::{Answer, Handle, Out, answer, require};
use crate::model::State;
use crate::model::context::Current;
use crate::model::state::state;
use crate::model::stream::Stream;
use gpumem_cuda_abi::CuResult;
use std::cell::Cell;
use std::ffi::c_void;

/// The highest priority of a stream; 0 is the lowest.
pub const GREATEST_PRIORITY: i32 = -5;

/// Whether a handle means a default stream: null, the legacy one (1), the thread's own (2).
fn is_default(stream: Handle) -> bool {
    stream <= 2
}

/// The context and device that a stream belongs to; a default stream's are the current ones.
pub fn stream_device(state: &mut State, stream: Handle) -> Answer<Current> {
    if is_default(stream) {
        return state.current();
    }
    let found = state.streams.get(stream).ok_or(CuResult::INVALID_HANDLE)?;
    Ok(Current {
        context: found.context,
        device: found.device,
    })
}

fn with_stream<T>(stream: Handle, ask: impl FnOnce(&Stream) -> T) -> Answer<T> {
    let mut state = state()?;
    if is_default(stream) {
        let Current { context, device } = state.current()?;
        return Ok(ask(&Stream {
            context,
            device,
            flags: 0,
            priority: 0,
            id: stream as u64,
        }));
    }
    let found = state.streams.get(stream).ok_or(CuResult::INVALID_HANDLE)?;
    Ok(ask(found))
}

/// `cuStreamCreate`.
pub extern "C" fn create(out: Out<Handle>, flags: u32) -> CuResult {
    create_with_priority(out, flags, 0)
}

/// `cuStreamCreateWithPriority`: priorities outside the range are moved into it.
pub extern "C" fn create_with_priority(out: Out<Handle>, flags: u32, priority: i32) -> CuResult {
    answer(|| {
        require(!out.is_null() && flags <= 1)?;
        let mut state = state()?;
        let Current { context, device } = state.current()?;
        let handle = state.streams.reserve();
        let stream = Stream {
            context,
            device,
            flags,
            priority: priority.clamp(GREATEST_PRIORITY, 0),
            id: handle as u64,
        };
        state.streams.insert_at(handle, stream);
        out.put(handle)
    })
}

/// `cuStreamDestroy`.
pub extern "C" fn destroy(stream: Handle) -> CuResult {
    answer(|| {
        let gone = state()?.streams.remove(stream);
        gone.map(drop).ok_or(CuResult::INVALID_HANDLE)
    })
}

/// `cuStreamSynchronize`: pools shrink, as after real work.
pub extern "C" fn synchronize(stream: Handle) -> CuResult {
    answer(|| {
        let mut state = state()?;
        let device = stream_device(&mut state, stream)?.device;
        state.synchronised(device);
        Ok(())
    })
}

/// What needs a live stream and nothing else: `cuStreamQuery`, `cuStreamSetAttribute`,
/// `cuStreamAttachMemAsync`.
pub extern "C" fn needs_stream(stream: Handle) -> CuResult {
    answer(|| with_stream(stream, |_| ()))
}

/// `cuStreamCopyAttributes`.
pub extern "C" fn copy_attributes(to: Handle, from: Handle) -> CuResult {
    answer(|| {
        with_stream(to, |_| ())?;
        with_stream(from, |_| ())
    })
}

/// `cuStreamWaitEvent`.
pub extern "C" fn wait_event(stream: Handle, event: Handle) -> CuResult {
    answer(|| {
        with_stream(stream, |_| ())?;
        let known = state()?.events.get(event).is_some();
        if known {
            Ok(())
        } else {
            Err(CuResult::INVALID_HANDLE)
        }
    })
}

/// `cuStreamGetPriority`.
pub extern "C" fn get_priority(stream: Handle, priority: Out<i32>) -> CuResult {
    answer(|| priority.put(with_stream(stream, |s| s.priority)?))
}

/// `cuStreamGetFlags`.
pub extern "C" fn get_flags(stream: Handle, flags: Out<u32>) -> CuResult {
    answer(|| flags.put(with_stream(stream, |s| s.flags)?))
}

/// `cuStreamGetId`.
pub extern "C" fn get_id(stream: Handle, id: Out<u64>) -> CuResult {
    answer(|| id.put(with_stream(stream, |s| s.id)?))
}

/// `cuStreamGetCtx`.
pub extern "C" fn get_context(stream: Handle, context: Out<Handle>) -> CuResult {
    answer(|| context.put(with_stream(stream, |s| s.context)?))
}

/// `cuStreamGetCtx_v2`: with the green context, of which there are none.
pub extern "C" fn get_context_v2(
    stream: Handle,
    context: Out<Handle>,
    green: Out<Handle>,
) -> CuResult {
    answer(|| {
        let found = with_stream(stream, |s| s.context)?;
        context.put_if_asked(found);
        green.put_if_asked(0);
        Ok(())
    })
}

/// `cuStreamGetDevice`.
pub extern "C" fn get_device(stream: Handle, device: Out<i32>) -> CuResult {
    answer(|| device.put(with_stream(stream, |s| s.device as i32)?))
}

/// `cuStreamGetAttribute`: the value is a union, of which only the member that is asked for is
/// written, since its size has grown with CUDA's versions.
pub extern "C" fn get_attribute(stream: Handle, attribute: u32, value: Out<[u8; 32]>) -> CuResult {
    answer(|| {
        let priority = with_stream(stream, |s| s.priority)?;
        match attribute {
            // The access policy window.
            1 => value.put([0; 32]),
            8 => value.cast().put(priority),
            // The memory synchronisation domains' map: two bytes.
            9 => value.cast().put([0u8; 2]),
            3 | 10 => value.cast().put(0u32),
            _ => Err(CuResult::INVALID_VALUE),
        }
    })
}

/// `cuStreamIsCapturing`: never.
pub extern "C" fn is_capturing(stream: Handle, status: Out<u32>) -> CuResult {
    answer(|| {
        with_stream(stream, |_| ())?;
        status.put(0)
    })
}

/// `cuStreamGetCaptureInfo`, all versions: the status comes first, and with none the rest is not
/// written.
pub extern "C" fn get_capture_info(stream: Handle, status: Out<u32>) -> CuResult {
    is_capturing(stream, status)
}

/// `cuThreadExchangeStreamCaptureMode`.
pub extern "C" fn exchange_capture_mode(mode: Out<u32>) -> CuResult {
    thread_local!(static MODE: Cell<u32> = const { Cell::new(0) });
    answer(|| {
        let wanted = mode.get()?;
        require(wanted <= 2)?;
        mode.put(MODE.with(|current| current.replace(wanted)))
    })
}

/// `cuStreamAddCallback`: called at once, on this thread.
pub extern "C" fn add_callback(
    stream: Handle,
    callback: Option<extern "C" fn(Handle, CuResult, *mut c_void)>,
    data: *mut c_void,
    flags: u32,
) -> CuResult {
    answer(|| {
        require(flags == 0)?;
        with_stream(stream, |_| ())?;
        let callback = callback.ok_or(CuResult::INVALID_VALUE)?;
        callback(stream, CuResult::SUCCESS, data);
        Ok(())
    })
}

/// `cuLaunchHostFunc`: called at once, on this thread.
pub extern "C" fn launch_host_function(
    stream: Handle,
    function: Option<extern "C" fn(*mut c_void)>,
    data: *mut c_void,
) -> CuResult {
    answer(|| {
        with_stream(stream, |_| ())?;
        let function = function.ok_or(CuResult::INVALID_VALUE)?;
        function(data);
        Ok(())
    })
}

/// `cuStreamWriteValue32`.
pub extern "C" fn write_value_32(stream: Handle, address: u64, value: u32) -> CuResult {
    write_value(stream, address, &value.to_ne_bytes())
}

/// `cuStreamWriteValue64`.
pub extern "C" fn write_value_64(stream: Handle, address: u64, value: u64) -> CuResult {
    write_value(stream, address, &value.to_ne_bytes())
}

fn write_value(stream: Handle, address: u64, value: &[u8]) -> CuResult {
    use super::copy::{End, copy};
    answer(|| {
        with_stream(stream, |_| ())?;
        let from = End::Host(value.as_ptr() as u64);
        copy(End::Unified(address), from, value.len() as u64)
    })
}
