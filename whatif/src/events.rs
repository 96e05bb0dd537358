//! CUDA's events by which the allocator learns that other streams are through with a block it was given back.
//!
//! The library is loaded before CUDA's runtime, so these functions come first. While a block is freed each event
//! that is recorded is one of the block's; until the moment at which the stream was through in the recorded run it is
//! said to be not ready. And no stream is captured in a replay: whether one was, this says.

use core::cell::RefCell;
use core::ffi::{c_int, c_void};
use core::sync::atomic::{AtomicUsize, Ordering};

use rustc_hash::FxHashMap;

use crate::real;

const NOT_READY: c_int = 600;
/// `cudaStreamCaptureStatusActive`
const CAPTURE_ACTIVE: c_int = 1;

/// What the replay on this thread says of events.
#[derive(Default)]
struct Now {
    holds: bool,
    /// The release that is replayed, by its seq.
    freeing: Option<u64>,
    /// Of each event the release and the stream that it is of.
    events: FxHashMap<usize, (u64, u64)>,
    /// Of each stream the last release that it was through with in the recorded run.
    through: FxHashMap<u64, u64>,
    /// The caller was in a capture of a CUDA graph.
    captures: bool,
}

thread_local! {
    static NOW: RefCell<Option<Now>> = const { RefCell::new(None) };
}

/// A replay begins. `holds`: it will be told when streams are through; else they are at once.
pub(crate) fn begin(holds: bool) {
    NOW.set(Some(Now {
        holds,
        ..Now::default()
    }));
}

/// It ends.
pub(crate) fn end() {
    NOW.set(None);
}

/// A stream is through with what was freed up to this release.
pub(crate) fn through(stream: u64, freed: u64) {
    set(|now| {
        let last = now.through.entry(stream).or_default();
        *last = freed.max(*last);
    });
}

/// The release is replayed while `free` runs.
#[inline]
pub(crate) fn freeing(seq: u64, free: impl FnOnce()) {
    set(|now| now.freeing = Some(seq));
    free();
    set(|now| now.freeing = None);
}

/// What follows was called in a capture of a CUDA graph, or was not.
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
/// As the runtime's.
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
/// As the runtime's.
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

/// The runtime's function of this name. By it PyTorch's allocator asks whether it is called within a capture.
///
/// # Safety
/// As the runtime's.
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
        // SAFETY: the caller's place for the answer.
        unsafe { status.write(CAPTURE_ACTIVE) };
        return 0;
    }
    let real = real(&CAPTURE_INFO, c"cudaStreamGetCaptureInfo");
    if real == 0 {
        return 3;
    }
    type Info =
        unsafe extern "C" fn(*mut c_void, *mut c_int, usize, usize, usize, usize, usize) -> c_int;
    // SAFETY: as above; it takes no more than these words.
    unsafe {
        let real: Info = core::mem::transmute(real);
        real(stream, status, a, b, c, d, e)
    }
}
