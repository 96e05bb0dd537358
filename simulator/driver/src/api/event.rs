//! Events. They are complete as soon as they are recorded.

use super::on_stream::on_stream;
use crate::clock;
use crate::ffi::{Answer, CuError, Handle, Out, require};
use crate::model::capture::EXTERNAL;
use crate::model::state::state;
use crate::model::stream::{Event, On};
use gpumem_cuda_abi::CuIpcMemHandle;

/// `CU_EVENT_DISABLE_TIMING`.
const DISABLE_TIMING: u32 = 2;
/// `CU_EVENT_INTERPROCESS`, which requires `DISABLE_TIMING`.
const INTERPROCESS: u32 = 4;

/// The start of a shared event's handle; the rest is zero.
const SHARED: [u8; 16] = *b"gpumem sim event";

/// `cuEventCreate`.
pub extern "C" fn create(out: Out<Handle>, flags: u32) -> Answer {
    require(!out.is_null() && flags <= 7)?;
    require(flags & INTERPROCESS == 0 || flags & DISABLE_TIMING != 0)?;
    let mut state = state()?;
    let context = state.current()?.context;
    let event = Event {
        context,
        flags,
        recorded: None,
        captured: None,
    };
    out.put(state.events.insert(event))
}

/// `cuEventDestroy`.
pub extern "C" fn destroy(event: Handle) -> Answer {
    let gone = state()?.events.remove(event);
    gone.map(drop).ok_or(CuError::INVALID_HANDLE)
}

/// Records an event now.
pub fn record_now(event: Handle) -> Answer {
    let mut state = state()?;
    let found = state.events.get_mut(event);
    let found = found.ok_or(CuError::INVALID_HANDLE)?;
    found.recorded = Some(clock::now());
    found.captured = None;
    Ok(())
}

fn record_on(on: On, event: Handle) -> Answer {
    record_with_flags_on(on, event, 0)
}

fn record_with_flags_on(on: On, event: Handle, flags: u32) -> Answer {
    require(flags & !EXTERNAL == 0)?;
    if state()?.record_captured(on, event, flags)? {
        return Ok(());
    }
    record_now(event)
}

on_stream! {
    "`cuEventRecord`." record record_own [event: Handle] [] = record_on;
    "`cuEventRecordWithFlags`." record_with_flags record_with_flags_own
        [event: Handle] [flags: u32] = record_with_flags_on;
}

/// `cuEventQuery`: recorded work is always complete.
pub extern "C" fn query(event: Handle) -> Answer {
    state()?.event_call(event)
}

/// `cuEventSynchronize`: pools shrink, as after real work.
pub extern "C" fn synchronize(event: Handle) -> Answer {
    let mut state = state()?;
    state.event_call(event)?;
    let found = state.events.get(event).ok_or(CuError::INVALID_HANDLE)?;
    let context = found.context;
    let device = state.context(context)?.device;
    state.synchronised(device);
    Ok(())
}

/// `cuEventElapsedTime`: the time between the two records, in milliseconds.
pub extern "C" fn elapsed(milliseconds: Out<f32>, start: Handle, end: Handle) -> Answer {
    let state = state()?;
    let recorded = |event: Handle| {
        let event = state.events.get(event);
        let timed = event.filter(|event| event.flags & DISABLE_TIMING == 0);
        timed
            .and_then(|event| event.recorded)
            .ok_or(CuError::INVALID_HANDLE)
    };
    let (start, end) = (recorded(start)?, recorded(end)?);
    let forward = end.saturating_duration_since(start).as_secs_f32();
    let backward = start.saturating_duration_since(end).as_secs_f32();
    milliseconds.put((forward - backward) * 1e3)
}

/// `cuIpcGetEventHandle`, for an event that was created for it. Work is complete when the call that
/// submits it returns, so the handle only identifies an event.
pub extern "C" fn share(out: Out<CuIpcMemHandle>, event: Handle) -> Answer {
    let state = state()?;
    let found = state.events.get(event).ok_or(CuError::INVALID_HANDLE)?;
    require(found.flags & INTERPROCESS != 0)?;
    let mut handle = CuIpcMemHandle { reserved: [0; 64] };
    handle.reserved[..SHARED.len()].copy_from_slice(&SHARED);
    out.put(handle)
}

/// `cuIpcOpenEventHandle`: the handle is passed by value.
pub extern "C" fn open_shared(out: Out<Handle>, handle: CuIpcMemHandle) -> Answer {
    require(!out.is_null() && handle.reserved.starts_with(&SHARED))?;
    let mut state = state()?;
    let context = state.current()?.context;
    let event = Event {
        context,
        flags: INTERPROCESS | DISABLE_TIMING,
        recorded: None,
        captured: None,
    };
    out.put(state.events.insert(event))
}
