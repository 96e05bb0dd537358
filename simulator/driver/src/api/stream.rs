//! Streams. The simulated device is never busy, so all submitted work is complete, unless it is
//! captured.

use super::on_stream::{on_stream, submit};
use crate::ffi::{Answer, CuError, Handle, Out, require};
use crate::model::capture::EXTERNAL;
use crate::model::context::Current;
use crate::model::graph::Work;
use crate::model::state::state;
use crate::model::stream::{On, Stream};
use gpumem_cuda_abi::{CuHostNodeParams, CuResult};
use std::ffi::c_void;

/// The highest priority of a stream; 0 is the lowest.
pub const GREATEST_PRIORITY: i32 = -5;

fn with_stream<T>(on: On, ask: impl FnOnce(&Stream) -> T) -> Answer<T> {
    let mut state = state()?;
    if on.is_default() {
        let Current { context, device } = state.current()?;
        return Ok(ask(&Stream {
            context,
            device,
            flags: 0,
            priority: 0,
            id: on.handle() as u64,
        }));
    }
    let found = state.streams.get(on.handle());
    Ok(ask(found.ok_or(CuError::INVALID_HANDLE)?))
}

/// `cuStreamCreate`.
pub extern "C" fn create(out: Out<Handle>, flags: u32) -> Answer {
    create_with_priority(out, flags, 0)
}

/// `cuStreamCreateWithPriority`: priorities are clamped to the range.
pub extern "C" fn create_with_priority(out: Out<Handle>, flags: u32, priority: i32) -> Answer {
    require(!out.is_null() && flags <= 1)?;
    let mut state = state()?;
    let at = state.current()?;
    state.pay_for_stream(at)?;
    let Current { context, device } = at;
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
}

/// `cuStreamDestroy`.
pub extern "C" fn destroy(stream: Handle) -> Answer {
    let left = {
        let mut state = state()?;
        let gone = state.streams.remove(stream);
        gone.ok_or(CuError::INVALID_HANDLE)?;
        state.forget_stream(On::legacy(stream))
    };
    left.run();
    Ok(())
}

/// `cuStreamSynchronize`: pools shrink, as after real work.
fn synchronize_on(on: On) -> Answer {
    let mut state = state()?;
    let device = state.not_captured(on)?.device;
    state.unsafe_call()?;
    state.synchronised(device);
    Ok(())
}

fn query_on(on: On) -> Answer {
    let mut state = state()?;
    state.not_captured(on)?;
    state.unsafe_call()
}

fn needs_stream_on(on: On) -> Answer {
    with_stream(on, |_| ())
}

fn uncaptured_on(on: On) -> Answer {
    state()?.not_captured(on).map(drop)
}

fn wait_event_on(on: On, event: Handle, flags: u32) -> Answer {
    require(flags & !EXTERNAL == 0)?;
    state()?.wait_captured(on, event, flags)
}

fn get_priority_on(on: On, priority: Out<i32>) -> Answer {
    priority.put(with_stream(on, |s| s.priority)?)
}

fn get_flags_on(on: On, flags: Out<u32>) -> Answer {
    flags.put(with_stream(on, |s| s.flags)?)
}

fn get_id_on(on: On, id: Out<u64>) -> Answer {
    id.put(with_stream(on, |s| s.id)?)
}

fn get_context_on(on: On, context: Out<Handle>) -> Answer {
    context.put(with_stream(on, |s| s.context)?)
}

/// With the green context, which is always null.
fn get_context_v2_on(on: On, context: Out<Handle>, green: Out<Handle>) -> Answer {
    let found = with_stream(on, |s| s.context)?;
    context.put_if_asked(found);
    green.put_if_asked(0);
    Ok(())
}

fn get_device_on(on: On, device: Out<i32>) -> Answer {
    device.put(with_stream(on, |s| s.device as i32)?)
}

/// The value is a union. Only the member of the requested attribute is written, because the union's
/// size has grown with CUDA's versions.
fn get_attribute_on(on: On, attribute: u32, value: Out<[u8; 32]>) -> Answer {
    let priority = with_stream(on, |s| s.priority)?;
    match attribute {
        // The access policy window.
        1 => value.put([0; 32]),
        8 => value.cast().put(priority),
        // The memory synchronisation domains' map: two bytes.
        9 => value.cast().put([0u8; 2]),
        3 | 10 => value.cast().put(0u32),
        _ => Err(CuError::INVALID_VALUE),
    }
}

/// The callback runs at once, on this thread.
fn add_callback_on(
    on: On,
    callback: Option<extern "C" fn(Handle, CuResult, *mut c_void)>,
    data: *mut c_void,
    flags: u32,
) -> Answer {
    require(flags == 0)?;
    uncaptured_on(on)?;
    let callback = callback.ok_or(CuError::INVALID_VALUE)?;
    let stream = if on.is_default() { 0 } else { on.handle() };
    callback(stream, CuResult::SUCCESS, data);
    Ok(())
}

/// Calls a host function of a stream or a graph. The state must not be locked.
pub fn call_host(host: &CuHostNodeParams) {
    // SAFETY: the caller that submitted the work passed a host function of this signature, and
    // checked that it is not null.
    let function = unsafe { std::mem::transmute::<usize, extern "C" fn(usize)>(host.function) };
    function(host.data);
}

/// The function runs at once, on this thread.
fn launch_host_on(on: On, function: usize, data: usize) -> Answer {
    require(function != 0)?;
    let host = CuHostNodeParams { function, data };
    submit(on, Work::Host(host), || {
        call_host(&host);
        Ok(())
    })
}

fn write_value_32_on(on: On, address: u64, value: u32) -> Answer {
    write_value(on, address, &value.to_ne_bytes())
}

fn write_value_64_on(on: On, address: u64, value: u64) -> Answer {
    write_value(on, address, &value.to_ne_bytes())
}

fn write_value(on: On, address: u64, value: &[u8]) -> Answer {
    use super::copy::{End, copy};
    uncaptured_on(on)?;
    let from = End::Host(value.as_ptr() as u64);
    copy(End::Unified(address), from, value.len() as u64)
}

on_stream! {
    "`cuStreamSynchronize`." synchronize synchronize_own [] [] = synchronize_on;
    "`cuStreamQuery`: never busy." query query_own [] [] = query_on;
    "What needs a live stream and nothing else: `cuStreamSetAttribute`." needs_stream
        needs_own_stream [] [] = needs_stream_on;
    "What needs a stream that is not captured: `cuStreamAttachMemAsync`, `cuStreamWaitValue*`."
        uncaptured uncaptured_own [] [] = uncaptured_on;
    "`cuStreamWaitEvent`." wait_event wait_event_own
        [] [event: Handle, flags: u32] = wait_event_on;
    "`cuStreamGetPriority`." get_priority get_priority_own
        [] [priority: Out<i32>] = get_priority_on;
    "`cuStreamGetFlags`." get_flags get_flags_own [] [flags: Out<u32>] = get_flags_on;
    "`cuStreamGetId`." get_id get_id_own [] [id: Out<u64>] = get_id_on;
    "`cuStreamGetCtx`." get_context get_context_own [] [context: Out<Handle>] = get_context_on;
    "`cuStreamGetCtx_v2`." get_context_v2 get_context_v2_own
        [] [context: Out<Handle>, green: Out<Handle>] = get_context_v2_on;
    "`cuStreamGetDevice`." get_device get_device_own [] [device: Out<i32>] = get_device_on;
    "`cuStreamGetAttribute`." get_attribute get_attribute_own
        [] [attribute: u32, value: Out<[u8; 32]>] = get_attribute_on;
    "`cuStreamAddCallback`." add_callback add_callback_own
        [] [callback: Option<extern "C" fn(Handle, CuResult, *mut c_void)>,
            data: *mut c_void, flags: u32] = add_callback_on;
    "`cuLaunchHostFunc`." launch_host_function launch_host_function_own
        [] [function: usize, data: usize] = launch_host_on;
    "`cuStreamWriteValue32`." write_value_32 write_value_32_own
        [] [address: u64, value: u32] = write_value_32_on;
    "`cuStreamWriteValue64`." write_value_64 write_value_64_own
        [] [address: u64, value: u64] = write_value_64_on;
}

/// `cuStreamCopyAttributes`.
pub extern "C" fn copy_attributes(to: Handle, from: Handle) -> Answer {
    with_stream(On::legacy(to), |_| ())?;
    with_stream(On::legacy(from), |_| ())
}
