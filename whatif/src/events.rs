//! CUDA's events by which the allocator learns that other streams are through with a block it was given back.
//!
//! The library is loaded before CUDA's runtime, so these functions come first. While a block is freed each event
//! that is recorded is one of the block's; until the moment at which the stream was through in the recorded run it is
//! said to be not ready. And no stream is captured in a replay: whether one was, this says.

use core::cell::RefCell;
use core::ffi::{c_int, c_void};
use core::sync::atomic::{AtomicUsize, Ordering};

use rustc_hash::FxHashMap;

use crate::late::Ready;
use crate::real;

const NOT_READY: c_int = 600;
/// `cudaStreamCaptureStatusActive`
const CAPTURE_ACTIVE: c_int = 1;

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
    /// What is asked for is of a CUDA graph that is being captured.
    captures: bool,
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
    set(|now| now.seq = seq);
}

/// The release is replayed while `free` runs.
#[inline]
pub(crate) fn freeing(seq: u64, free: impl FnOnce()) {
    set(|now| now.freeing = Some(seq));
    free();
    set(|now| now.freeing = None);
}

/// A block of a graph that is being captured is asked for while `ask` runs.
pub(crate) fn capturing<T>(ask: impl FnOnce() -> T) -> T {
    set(|now| now.captures = true);
    let asked = ask();
    set(|now| now.captures = false);
    asked
}

fn set(to: impl FnOnce(&mut Now)) {
    NOW.with_borrow_mut(|now| {
        if let Some(now) = now {
            to(now);
        }
    });
}

static RECORD: AtomicUsize = AtomicUsize::new(0);
static QUERY: AtomicUsize = AtomicUsize::new(0);
static IS_CAPTURING: AtomicUsize = AtomicUsize::new(0);

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

/// The runtime's function of this name. PyTorch's allocator asks it before it would give memory back and try again.
///
/// # Safety
/// As the runtime's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudaStreamIsCapturing(stream: *mut c_void, status: *mut c_int) -> c_int {
    let captures = NOW.with_borrow(|now| now.as_ref().is_some_and(|now| now.captures));
    if captures && !status.is_null() {
        // SAFETY: the caller's place for the answer.
        unsafe { status.write(CAPTURE_ACTIVE) };
        return 0;
    }
    let real = real(&IS_CAPTURING, c"cudaStreamIsCapturing");
    if real == 0 {
        return 3;
    }
    // SAFETY: as above.
    unsafe {
        let real: unsafe extern "C" fn(*mut c_void, *mut c_int) -> c_int =
            core::mem::transmute(real);
        real(stream, status)
    }
}
