//! The CUDA events by which the allocator learns that other streams have finished with a freed block.
//!
//! The library is loaded before CUDA's runtime, so its functions take precedence. Each event that is recorded while a
//! block is freed belongs to that block. It is reported as not ready until the point at which the stream had finished
//! in the recorded run. No stream is captured in a replay; these functions report whether one was captured in the
//! recorded run.

use core::cell::RefCell;
use core::ffi::{c_int, c_void};
use core::sync::atomic::{AtomicUsize, Ordering};

use rustc_hash::FxHashMap;

use crate::real;

const NOT_READY: c_int = 600;
/// `cudaStreamCaptureStatusActive`
const CAPTURE_ACTIVE: c_int = 1;

/// The state of events in the replay on this thread.
#[derive(Default)]
struct Now {
    holds: bool,
    /// The free that is replayed, by its number.
    freeing: Option<u64>,
    /// The free and the stream of each event.
    events: FxHashMap<usize, (u64, u64)>,
    /// For each stream, the last free that it had finished with in the recorded run.
    through: FxHashMap<u64, u64>,
    /// Whether the caller was in a capture of a CUDA graph.
    captures: bool,
}

thread_local! {
    static NOW: RefCell<Option<Now>> = const { RefCell::new(None) };
}

/// Begins a replay. `holds`: it will call [`through`] when streams have finished; else they finish at once.
pub(crate) fn begin(holds: bool) {
    NOW.set(Some(Now {
        holds,
        ..Now::default()
    }));
}

/// Ends the replay.
pub(crate) fn end() {
    NOW.set(None);
}

/// A stream has finished with what was freed up to this free.
pub(crate) fn through(stream: u64, freed: u64) {
    set(|now| {
        let last = now.through.entry(stream).or_default();
        *last = freed.max(*last);
    });
}

/// Replays a free by running `free`.
#[inline]
pub(crate) fn freeing(seq: u64, free: impl FnOnce()) {
    set(|now| now.freeing = Some(seq));
    free();
    set(|now| now.freeing = None);
}

/// Sets whether the calls that follow were made in a capture of a CUDA graph.
#[inline]
pub(crate) fn in_capture(captures: bool) {
    set(|now| now.captures = captures);
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
static CAPTURE_INFO: AtomicUsize = AtomicUsize::new(0);

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
/// As for the runtime's function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudaEventRecord(event: *mut c_void, stream: *mut c_void) -> c_int {
    NOW.with_borrow_mut(|now| {
        if let Some(now) = now
            && now.holds
            && let Some(freeing) = now.freeing
        {
            now.events.insert(event as usize, (freeing, stream as u64));
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
/// As for the runtime's function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudaEventQuery(event: *mut c_void) -> c_int {
    let is_early = NOW.with_borrow(|now| {
        let now = now.as_ref()?;
        let (freed, stream) = now.events.get(&(event as usize))?;
        let through = now.through.get(stream).copied().unwrap_or(0);
        (through < *freed).then_some(())
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

/// The runtime's function of this name. PyTorch's allocator calls it to check whether it runs within a capture.
///
/// # Safety
/// As for the runtime's function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudaStreamGetCaptureInfo(
    stream: *mut c_void,
    status: *mut c_int,
    a: usize,
    b: usize,
    c: usize,
    d: usize,
    e: usize,
) -> c_int {
    let captures = NOW.with_borrow(|now| now.as_ref().is_some_and(|now| now.captures));
    if captures && !status.is_null() {
        // SAFETY: the caller's place for the result.
        unsafe { status.write(CAPTURE_ACTIVE) };
        return 0;
    }
    let real = real(&CAPTURE_INFO, c"cudaStreamGetCaptureInfo");
    if real == 0 {
        return 3;
    }
    type Info =
        unsafe extern "C" fn(*mut c_void, *mut c_int, usize, usize, usize, usize, usize) -> c_int;
    // SAFETY: as above; it takes at most these words.
    unsafe {
        let real: Info = core::mem::transmute(real);
        real(stream, status, a, b, c, d, e)
    }
}
