//! Calls of PyTorch's allocator that change its later behaviour. Each function replaces a slot of the allocator's
//! vtable ([`super::slots`]), records the call, and calls the original function. Arguments and results are passed on as
//! register words.

use core::sync::atomic::Ordering;
use std::os::unix::ffi::OsStrExt as _;

use gpumem_capture::{AllocatorCall, DeviceOrdinal, PlacementId};
use gpumem_torch_abi::{Method, Stream};

use super::record::{Call, record};
use super::seen::tell;
use super::{attach, filters, found, streams};
use crate::{session, thread};

/// From here on, only the trace reports what happens to blocks.
fn need_trace() {
    if let Some(session) = session::session()
        && session.allocator.trace.is_idle()
    {
        // The recorder's re-entry flag is not set meanwhile: PyTorch's function is called like a call of the program.
        if attach::attach(session) {
            let _ = thread::in_hook(|_| tell(session));
        }
    }
}

/// Settings that the program passes at run time, or, before those, the environment's.
pub(crate) fn settings(text: &[u8]) {
    let device = DeviceOrdinal::NONE;
    record(AllocatorCall::SETTINGS, device, |session| Call {
        bytes: session
            .names
            .id_of(session.writer, text)
            .map_or(0, u64::from),
        ..Call::PLAIN
    });
}

/// Settings that the program passes at run time, in a release that reads the environment's in another way.
pub(crate) fn settings_at_run_time(text: &[u8]) {
    let own = ["PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_ALLOC_CONF"];
    let own = own.into_iter().find_map(std::env::var_os);
    if own.is_some_and(|own| own.as_bytes() == text) {
        settings(text); // else these would be taken for the environment's
    }
    settings(text);
}

/// Without a trace, the time is unknown at which a block that was used on another stream becomes free.
fn miss_releases() {
    if let Some(session) = session::session()
        && session.allocator.trace.misses_releases_now()
    {
        let _ = thread::in_hook(|_| tell(session));
    }
}

/// Records that the block of a `DataPtr` is used on a stream.
pub(crate) fn stream_recorded(data: u64, stream: Stream) {
    // SAFETY: PyTorch passes a reference to what begins with the address of its data.
    let ptr = unsafe { (data as *const u64).read() };
    if ptr == 0 {
        return;
    }
    let device = streams::device_of(stream);
    record(AllocatorCall::RECORD_STREAM, device, |session| {
        let placement = streams::handle_of(&stream).map_or(PlacementId::UNKNOWN, |handle| {
            let id = || Some(stream.id);
            session
                .allocator
                .placements
                .of(session.writer, device, handle, id, (0, 0))
        });
        Call {
            ptr,
            placement,
            ..Call::PLAIN
        }
    });
}

/// Records that reserved but unallocated memory of one pool or all pools is returned.
pub(crate) fn cache_emptied(pool: (u64, u64)) {
    let all = pool == (0, 0);
    // A pool's id belongs to a device.
    let device = match all {
        true => DeviceOrdinal::NONE,
        false => DeviceOrdinal(0),
    };
    record(AllocatorCall::EMPTY_CACHE, device, |session| match all {
        true => Call::PLAIN,
        false => Call::of_pool(session, device, pool),
    });
}

/// Records the fraction of a device that the process may hold.
pub(crate) fn fraction_set(fraction: f64, of: u64) {
    record(AllocatorCall::FRACTION, device(of), |_| Call {
        bytes: fraction.to_bits(),
        ..Call::PLAIN
    });
}

/// A device argument, of which only the low byte is significant.
pub(super) fn device(word: u64) -> DeviceOrdinal {
    DeviceOrdinal(word as u8)
}

macro_rules! slots {
    ($($(#[$doc:meta])* fn $name:ident($($arg:ident),*) $(and $float:ident)? in $method:ident $before:block)*) => {
        $(
            $(#[$doc])*
            #[allow(clippy::too_many_arguments)]
            pub(super) extern "C-unwind" fn $name($($arg: u64,)* $($float: f64)?) -> u64 {
                $before
                let real = found::real(Method::$method).load(Ordering::Acquire);
                type Real = extern "C-unwind" fn($(slots!(@word $arg),)* $(slots!(@float $float))?) -> u64;
                // SAFETY: what stood in the slot takes and gives these words; ours is there only once it is known.
                let real: Real = unsafe { core::mem::transmute(real) };
                real($($arg,)* $($float)?)
            }
        )*
    };
    (@word $arg:ident) => { u64 };
    (@float $arg:ident) => { f64 };
}

slots! {
    /// `recordStream(const DataPtr&, CUDAStream)`
    fn record_stream(this, data, stream_device, stream_id) in RecordStream {
        need_trace();
        miss_releases();
        stream_recorded(data, Stream { device: stream_device, id: stream_id });
    }

    /// `emptyCache(MempoolId)`
    fn empty_cache(this, first, second) in EmptyCache {
        cache_emptied((first, second));
    }

    /// `emptyCache()`, for the active pool if there is one
    fn empty_all_caches(this) in EmptyAllCaches {
        cache_emptied(found::active_pool().unwrap_or((0, 0)));
    }

    /// `setMemoryFraction(double, DeviceIndex)`
    fn set_fraction(this, of) and fraction in SetMemoryFraction {
        fraction_set(fraction, of);
    }

    /// `beginAllocateToPool(DeviceIndex, MempoolId, std::function<bool(cudaStream_t)>)`
    fn pool_begin(this, of, first, second, filter) in BeginAllocateToPool {
        need_trace();
        let pool = (first, second);
        filters::hear(filter, device(of), pool);
        record(AllocatorCall::POOL_BEGIN, device(of), |session| Call {
            bytes: u64::from(found::active_pool() == Some(pool)),
            ..Call::of_pool(session, device(of), pool)
        });
    }

    /// `beginAllocateStreamToPool(int, cudaStream_t, MempoolId)`
    fn stream_pool_begin(this, of, stream, first, second) in BeginAllocateStreamToPool {
        need_trace();
        record(AllocatorCall::POOL_BEGIN, device(of), |session| {
            let pool = (first, second);
            session.allocator.routes.begin_stream(device(of), stream, pool);
            Call::of_stream(session, device(of), stream, pool)
        });
    }

    /// `endAllocateStreamToPool(int, cudaStream_t)`
    fn stream_pool_end(this, of, stream) in EndAllocateStreamToPool {
        record(AllocatorCall::POOL_END, device(of), |session| {
            let pool = session.allocator.routes.end_stream(device(of), stream);
            Call::of_stream(session, device(of), stream, pool.unwrap_or_default())
        });
    }

    /// `endAllocateToPool(DeviceIndex, MempoolId)`
    fn pool_end(this, of, first, second) in EndAllocateToPool {
        record(AllocatorCall::POOL_END, device(of), |session| {
            Call::of_pool(session, device(of), (first, second))
        });
    }

    /// `releasePool(DeviceIndex, MempoolId)`
    fn pool_release(this, of, first, second) in ReleasePool {
        record(AllocatorCall::POOL_RELEASE, device(of), |session| {
            Call::of_pool(session, device(of), (first, second))
        });
    }

    /// `createOrIncrefPool(DeviceIndex, MempoolId, std::shared_ptr<CUDAAllocator>)`
    fn pool_retain(this, of, first, second, allocator) in CreateOrIncrefPool {
        record(AllocatorCall::POOL_RETAIN, device(of), |session| {
            Call::of_pool(session, device(of), (first, second))
        });
    }

    /// `setUseOnOOM(DeviceIndex, MempoolId, bool)`
    fn use_on_oom(this, of, first, second, used) in SetUseOnOom {
        record(AllocatorCall::USE_ON_OOM, device(of), |session| Call {
            bytes: u64::from(used as u8),
            ..Call::of_pool(session, device(of), (first, second))
        });
    }

    /// `setUseOnOOM(DeviceIndex, MempoolId)`, before 2.11: always enables it.
    fn always_use_on_oom(this, of, first, second) in SetUseOnOom {
        record(AllocatorCall::USE_ON_OOM, device(of), |session| Call {
            bytes: 1,
            ..Call::of_pool(session, device(of), (first, second))
        });
    }

    /// `setNoSplit(DeviceIndex, MempoolId)`
    fn no_split(this, of, first, second, more) in SetNoSplit {
        record(AllocatorCall::NO_SPLIT, device(of), |session| {
            Call::of_pool(session, device(of), (first, second))
        });
    }

    /// `markCaptureBegin(DeviceIndex)`
    fn capture_begin(this, of) in MarkCaptureBegin {
        record(AllocatorCall::CAPTURE_BEGIN, device(of), |_| Call::PLAIN);
    }

    /// `markCaptureEnd(DeviceIndex)`
    fn capture_end(this, of) in MarkCaptureEnd {
        record(AllocatorCall::CAPTURE_END, device(of), |_| Call::PLAIN);
    }
}
