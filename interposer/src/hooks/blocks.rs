//! Common code of the hook families: recording after a call has returned, or before it is made.

use gpumem_capture::{DeviceOrdinal, EventFlags, Level};
use gpumem_cuda_abi::{CuMemoryPool, CuResult, CuStream};
use gpumem_tracker::{Interest, Node, NodeWork, Pending, Seen};

use super::{contexts_seen, graphs, places};
use crate::call::Call;
use crate::failed::Failed;
use crate::record::{self, New};
use crate::thread::Thread;
use crate::{driver, evidence, session};

/// The result code for out of memory, the same in both APIs.
const OUT_OF_MEMORY: u32 = 2;

/// The owner of a block.
#[derive(Clone, Copy)]
pub(super) enum Source {
    /// The current context, and its device.
    Context,
    /// The pool that it came from, and that pool's device. If the driver does not report the pool (older drivers;
    /// without a context), it is the requested pool: null for the current one of the stream's device.
    Pool(CuMemoryPool, CuStream),
    /// A graph that is being captured, and the pool and stream of the captured call: nothing becomes live before it is
    /// launched.
    Graph(u64, CuMemoryPool, CuStream),
    /// A device that the call named.
    Named(DeviceOrdinal),
}

/// A block that a call requested.
#[derive(Clone, Copy)]
pub(super) struct Request {
    pub(super) level: Level,
    pub(super) bytes: u64,
    pub(super) source: Source,
    pub(super) flags: EventFlags,
}

/// The pool that `pointer` came from; if the driver does not report it, the requested one. A device's current pool may
/// have been changed since.
fn pool_of(pointer: u64, named: CuMemoryPool, stream: CuStream) -> CuMemoryPool {
    let asked = || {
        let current = || driver::pool_of(driver::stream_device(stream));
        let named = (!named.is_null()).then_some(named);
        named.or_else(current).unwrap_or(CuMemoryPool::NULL)
    };
    driver::pool_holding(pointer).unwrap_or_else(asked)
}

/// Records the result of a call that requests memory. `pointer` is read if the call succeeded and no inner hook has
/// recorded it.
pub(super) fn requested(
    call: &Call,
    thread: &Thread,
    result: u32,
    asked: Request,
    pointer: impl FnOnce() -> u64,
) {
    if call.inner_allocated() || (result != 0 && result != OUT_OF_MEMORY) {
        return;
    }
    let pointer = if result == 0 { pointer() } else { 0 };
    if result == 0 && pointer == 0 {
        return; // zero bytes were requested
    }
    let (pool, named) = match asked.source {
        Source::Pool(named, stream) if result == 0 => (pool_of(pointer, named, stream), named),
        Source::Pool(named, _) | Source::Graph(_, named, _) => (named, named),
        _ => (CuMemoryPool::NULL, CuMemoryPool::NULL),
    };
    let place = places::of_source(named, pool).map(places::recorded_as);
    let (level, there, kind) = place.unwrap_or((asked.level, None, EventFlags::NONE));
    let asked = Request {
        level,
        flags: asked.flags.with(kind),
        ..asked
    };
    let device = match asked.source {
        Source::Pool(..) | Source::Graph(..) if level == Level::HOST => DeviceOrdinal::NONE,
        // Without a context, the thread can query the pool of a pointer, but not its device.
        Source::Pool(_, stream) if result == 0 => match driver::device_of(pointer) {
            DeviceOrdinal::NONE => there.unwrap_or_else(|| driver::stream_device(stream)),
            device => device,
        },
        Source::Pool(_, stream) | Source::Graph(_, _, stream) => {
            there.unwrap_or_else(|| driver::stream_device(stream))
        }
        Source::Named(device) => device,
        Source::Context => driver::current_device(),
    };
    if let (0, Source::Graph(graph, ..)) = (result, asked.source) {
        let Request { bytes, flags, .. } = asked;
        let work = NodeWork::Allocate {
            level,
            bytes,
            device,
            flags,
        };
        let (handle, ptr) = (0, pointer);
        graphs::added(thread, call, graph, Node { handle, ptr, work });
    } else if result == OUT_OF_MEMORY {
        let failed = Failed {
            api: call.api(),
            level: asked.level,
            device,
            bytes: asked.bytes,
            framework: None,
            caller: call.caller(),
            of: EventFlags::NONE,
            is_told: false,
        };
        record::out_of_memory(thread, failed, result.into());
    } else {
        let context = match asked.source {
            Source::Context => driver::current_context(),
            Source::Pool(..) => pool.0 as u64,
            _ => 0,
        };
        let is_contexts = matches!(asked.source, Source::Context);
        let unseen = is_contexts && contexts_seen::used(thread, call, context, device);
        let Request {
            level,
            bytes,
            flags,
            ..
        } = asked;
        let new = New {
            level,
            ptr: pointer,
            bytes,
            device,
            context,
            flags,
        };
        record::allocated(thread, call, new);
        if unseen {
            // The runtime may have created it during this call, by an internal function.
            thread.has_set_up.set(true);
            // Only now is the new block explained.
            evidence::context_seen(thread, call, device, context, Seen::Found);
        } else if !is_contexts {
            contexts_seen::in_use(thread, call);
        }
    }
    call.note_allocated();
}

/// Records that `pointer` is about to be released, unless an outer hook has done so.
pub(super) fn releasing(
    call: &mut Call,
    thread: &Thread,
    level: Level,
    pointer: u64,
    flags: EventFlags,
) -> Option<Pending> {
    if pointer == 0 {
        // `cudaFree(NULL)` frees nothing: programs call it to have a context made.
        thread.has_set_up.set(true);
        return None;
    }
    if !call.claim_release(pointer) {
        return None;
    }
    record::releasing(thread, call.api(), level, pointer, flags)
}

/// Settles a release by the call's result: it becomes final, or is reverted.
pub(super) fn released(call: &Call, thread: &Thread, result: u32, held: Option<Option<Pending>>) {
    let Some(Some(pending)) = held else {
        return;
    };
    record::returned(thread, call, pending, result == 0);
    let any = |interest| session::session().is_some_and(|session| session.interest().has(interest));
    if result == 0 && any(Interest::DESTROYED_POOLS) {
        record::settle(thread, call.api());
    }
}

/// Settles the end of something by the call's result.
pub(super) fn ended(call: &Call, thread: &Thread, result: CuResult, held: Option<Option<Pending>>) {
    if let Some(Some(pending)) = held {
        record::returned(thread, call, pending, result.is_success());
    }
}
