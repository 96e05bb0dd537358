//! CUDA's events by which the allocator learns that other streams are through with a block it was given back.
//!
//! The library is loaded before CUDA's runtime, so these two functions come first. While a block is freed each event
//! that is recorded is one of the block's; until the moment at which the stream was through in the recorded run it is
//! said to be not ready.

use core::cell::RefCell;
use core::ffi::{c_int, c_void};
use core::sync::atomic::{AtomicUsize, Ordering};

use rustc_hash::FxHashMap;

use crate::late::Ready;
use crate::real;

const NOT_READY: c_int = 600;

/// What the replay on this thread says of events.
#[derive(Default)]
struct Now {
    ready: Ready,
    /// The seq of the event of the capture that is replayed.
    seq: u64,
    /// The release that is replayed.
    freeing: Option<u64>,
    /// The seq from which an event has come to pass.
    events: FxHashMap<usize, u64>,
}

thread_local! {
    static NOW: RefCell<Option<Now>> = const { RefCell::new(None) };
}

/// A replay begins.
pub(crate) fn begin(ready: Ready) {
    NOW.set(Some(Now {
        ready,
        ..Now::default()
    }));
}

/// It ends.
pub(crate) fn end() {
    NOW.set(None);
}

/// The next event of the capture.
#[inline]
pub(crate) fn at(seq: u64) {
    NOW.with_borrow_mut(|now| {
        if let Some(now) = now {
            now.seq = seq;
        }
    });
}

/// The release is replayed while `free` runs.
#[inline]
pub(crate) fn freeing(seq: u64, free: impl FnOnce()) {
    let set = |to| {
        NOW.with_borrow_mut(|now| {
            if let Some(now) = now {
                now.freeing = to;
            }
        });
    };
    set(Some(seq));
    free();
    set(None);
}

static RECORD: AtomicUsize = AtomicUsize::new(0);
static QUERY: AtomicUsize = AtomicUsize::new(0);

fn real(place: &AtomicUsize, name: &core::ffi::CStr) -> usize {
    match place.load(Ordering::Relaxed) {
        0 => {
            let found = real::next(name);
            place.store(found, Ordering::Relaxed);
            found
        }
        known => known,
    }
}

/// The runtime's function of this name.
///
/// # Safety
/// As the runtime's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudaEventRecord(event: *mut c_void, stream: *mut c_void) -> c_int {
    NOW.with_borrow_mut(|now| {
        if let Some(now) = now
            && let Some(freeing) = now.freeing
        {
            let from = now.ready.of(freeing, stream as u64);
            now.events.insert(event as usize, from);
        }
    });
    let real = real(&RECORD, c"cudaEventRecord");
    if real == 0 {
        return 3; // cudaErrorInitializationError
    }
    // SAFETY: the runtime's function of this type, with the caller's own arguments.
    unsafe {
        let real: unsafe extern "C" fn(*mut c_void, *mut c_void) -> c_int =
            core::mem::transmute(real);
        real(event, stream)
    }
}

/// The runtime's function of this name.
///
/// # Safety
/// As the runtime's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudaEventQuery(event: *mut c_void) -> c_int {
    let is_early = NOW.with_borrow(|now| {
        let now = now.as_ref()?;
        let from = now.events.get(&(event as usize))?;
        (*from > now.seq).then_some(())
    });
    if is_early.is_some() {
        return NOT_READY;
    }
    let real = real(&QUERY, c"cudaEventQuery");
    if real == 0 {
        return 3;
    }
    // SAFETY: as above.
    unsafe {
        let real: unsafe extern "C" fn(*mut c_void) -> c_int = core::mem::transmute(real);
        real(event)
    }
}
