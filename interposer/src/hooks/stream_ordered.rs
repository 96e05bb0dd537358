//! Stream-ordered memory, for legacy and per-thread default streams.

use core::sync::atomic::Ordering;

use gpumem_capture::{EventFlags, Level};
use gpumem_cuda_abi::{CuDevicePtr, CuMemoryPool, CuResult, CuStream};
use gpumem_tracker::{Interest, Pending};

use super::blocks::{self, Request, Source};
use super::{graphs, places};
use crate::call::Call;
use crate::limit::Takes;
use crate::session::{self, Session};
use crate::thread::Thread;
use crate::{contexts, driver, record};

/// A stream as a function interprets it: null is the thread's own default stream in the `_ptsz` forms.
fn stream_of(function: &str, stream: CuStream) -> CuStream {
    if stream.is_null() && function.ends_with("_ptsz") {
        CuStream::PER_THREAD
    } else {
        stream
    }
}

/// Memory that `function` requests from a pool (null: the current device's). It outlives contexts.
pub(super) fn from_pool(
    function: &str,
    bytes: usize,
    pool: CuMemoryPool,
    stream: CuStream,
) -> Request {
    let stream = stream_of(function, stream);
    let captured = contexts::captured_graph(stream);
    let (source, flags) = match captured {
        Some(graph) => {
            let flags = EventFlags::GRAPH.with(EventFlags::CAPTURE);
            (Source::Graph(graph.0 as u64, pool, stream), flags)
        }
        None => (Source::Pool(pool, stream), EventFlags::STREAM_ORDERED),
    };
    // The place of the pool decides the level, once the pool is known.
    Request {
        level: Level::DRIVER,
        bytes: bytes as u64,
        source,
        flags,
    }
}

/// The memory that `bytes` of a pool may take (null: the current pool of the stream's device).
fn taken(pool: CuMemoryPool, stream: CuStream, bytes: usize) -> Takes {
    places::taken(places::of_source(pool, pool), bytes, || {
        driver::stream_device(stream)
    })
}

/// Counts the start of an allocation. Returns whether it is counted.
fn begins() -> bool {
    let session = session::session();
    let begins = |session: &Session| session.allocating.fetch_add(1, Ordering::SeqCst);
    session.map(begins).is_some()
}

/// Records that a counted allocation has ended, and its block, if there is one, is live in the tracker. A destroyed
/// pool may have waited for that.
fn ended(thread: &Thread, call: &Call, is_counted: Option<bool>) {
    let Some(session) = session::session().filter(|_| is_counted == Some(true)) else {
        return;
    };
    session.allocating.fetch_sub(1, Ordering::SeqCst);
    if session.interest().has(Interest::DESTROYED_POOLS) {
        record::settle(thread, call.api());
    }
}

/// Records that `pointer` is about to be returned to its pool, unless that is being captured.
pub(super) fn about_to_release(
    function: &str,
    call: &mut Call,
    thread: &Thread,
    pointer: u64,
    stream: CuStream,
) -> Option<Pending> {
    if contexts::captured_graph(stream_of(function, stream)).is_some() {
        return None;
    }
    let flags = EventFlags::STREAM_ORDERED;
    blocks::releasing(call, thread, Level::DRIVER, pointer, flags)
}

/// Records a captured release: it is a node of the graph.
fn captured(
    thread: &Thread,
    call: &Call,
    function: &str,
    result: CuResult,
    pointer: CuDevicePtr,
    stream: CuStream,
) {
    if result.is_success()
        && let Some(graph) = contexts::captured_graph(stream_of(function, stream))
    {
        graphs::frees(thread, call, graph.0 as u64, 0, pointer.0);
    }
}

macro_rules! stream_ordered {
    ($($alloc:ident, $from_pool:ident, $free:ident;)*) => {$(
        hook! {
            /// Memory from the current pool of the stream's device.
            Driver Required
            fn $alloc(pointer: *mut CuDevicePtr, bytes: usize, stream: CuStream) -> CuResult;
            missing CuResult::NOT_INITIALIZED;
            takes taken(CuMemoryPool::NULL, stream_of(stringify!($alloc), stream), bytes);
            with call, thread, result, held;
            before { begins() }
            after {
                let asked = from_pool(stringify!($alloc), bytes, CuMemoryPool::NULL, stream);
                // SAFETY: the call succeeded, so the driver has just written there.
                blocks::requested(&call, thread, result.0, asked, || unsafe { (*pointer).0 });
                ended(thread, &call, held);
            }
        }

        hook! {
            /// Memory from a pool that the caller names.
            Driver Required
            fn $from_pool(
                pointer: *mut CuDevicePtr,
                bytes: usize,
                pool: CuMemoryPool,
                stream: CuStream,
            ) -> CuResult;
            missing CuResult::NOT_INITIALIZED;
            takes taken(pool, stream, bytes);
            with call, thread, result, held;
            before { begins() }
            after {
                let asked = from_pool(stringify!($from_pool), bytes, pool, stream);
                // SAFETY: the call succeeded, so the driver has just written there.
                blocks::requested(&call, thread, result.0, asked, || unsafe { (*pointer).0 });
                ended(thread, &call, held);
            }
        }

        hook! {
            /// Returns memory to its pool.
            Driver Required
            fn $free(pointer: CuDevicePtr, stream: CuStream) -> CuResult;
            missing CuResult::NOT_INITIALIZED;
            with call, thread, result, held;
            before { about_to_release(stringify!($free), &mut call, thread, pointer.0, stream) }
            after {
                blocks::released(&call, thread, result.0, held);
                captured(thread, &call, stringify!($free), result, pointer, stream);
            }
        }
    )*};
}

stream_ordered! {
    cuMemAllocAsync, cuMemAllocFromPoolAsync, cuMemFreeAsync;
    cuMemAllocAsync_ptsz, cuMemAllocFromPoolAsync_ptsz, cuMemFreeAsync_ptsz;
}
