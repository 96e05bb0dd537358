//! The decisions of this process's allocator for each step of a replay, from its trace and its reports.
//!
//! | what | from |
//! |---|---|
//! | segments and mappings, blocks that waited for a stream, streams and pools of blocks | the allocator's trace |
//! | blocks and their sizes, failures, the allocator's figures | its reports to PyTorch's profiler |
//! | refused segments, and how often the runtime is called | `cudaMalloc`, `cudaFree` |
//!
//! The library is loaded before PyTorch and CUDA's runtime, so its functions take precedence.

use core::cell::{Cell, RefCell};
use core::ffi::{CStr, c_int, c_void};
use core::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use gpumem_torch_abi::{Tail, TraceEntry, clock};

use crate::calls;
use crate::real;

/// The kind of a decision.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Action {
    /// A block was allocated.
    Alloc,
    /// A block was freed.
    Free,
    /// A freed block that waited for a stream went back to its pool.
    Release,
    /// There was no memory for a block.
    OutOfMemory,
    /// A segment came from CUDA.
    SegmentAlloc,
    /// A segment was returned to CUDA.
    SegmentFree,
    /// Memory was mapped into an expandable segment.
    Map,
    /// Memory was unmapped from an expandable segment.
    Unmap,
    /// CUDA had no memory for a segment.
    Refused,
}

/// One decision of the allocator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Decision {
    pub(crate) action: Action,
    pub(crate) ptr: u64,
    pub(crate) bytes: u64,
    /// The allocated and reserved bytes just after it; only for [`Action::Alloc`], `Free` and `OutOfMemory`.
    pub(crate) allocated: u64,
    pub(crate) reserved: u64,
    /// For [`Action::Alloc`]: the stream and the pool of the block.
    pub(crate) from: Source,
}

/// A stream and a pool.
pub(crate) type Source = (u64, (u64, u64));

/// Why a replay ended early.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Failure {
    pub(crate) bytes: u64,
    /// Whether the failure is not PyTorch's.
    pub(crate) is_foreign: bool,
}

/// The result of a step.
pub(crate) struct Step<'a> {
    pub(crate) decisions: &'a [Decision],
    /// Set if this is the last step.
    pub(crate) failure: Option<Failure>,
    /// Set if the step is part of a restore of a pool.
    pub(crate) restored: Option<Restored>,
}

/// The blocks that a restore freed and allocated; empty if the restore was made before.
#[derive(Default)]
pub(crate) struct Restored {
    /// Recorded addresses of blocks.
    pub(crate) gone: Vec<u64>,
    /// Blocks: their recorded addresses, and those in the replay.
    pub(crate) back: Vec<(u64, u64)>,
}

#[derive(Default)]
struct Now {
    decisions: Vec<Decision>,
    /// The block that is being freed.
    freeing: u64,
    /// The source of the newest allocated block.
    from: Source,
}

thread_local! {
    /// Whether there was no memory for the current request.
    static HAD_NO_MEMORY: Cell<bool> = const { Cell::new(false) };
    static NOW: RefCell<Option<Now>> = const { RefCell::new(None) };
}

/// The most bytes that the pool held.
static RESERVED: AtomicU64 = AtomicU64::new(0);

/// The most bytes that the pool has held, according to its reports so far.
pub(crate) fn most_reserved() -> u64 {
    RESERVED.load(Ordering::Relaxed)
}

/// Starts keeping decisions on this thread.
pub(crate) fn begin() {
    NOW.set(Some(Now::default()));
}

/// Stops keeping decisions.
pub(crate) fn end() {
    NOW.set(None);
}

/// Replaces the contents of `to` by the decisions since the last call, in order.
pub(crate) fn take(to: &mut Vec<Decision>) {
    to.clear();
    NOW.with_borrow_mut(|now| {
        if let Some(now) = now {
            to.append(&mut now.decisions);
        }
    });
}

/// Whether PyTorch has reported on this thread since the last call that there was no memory for a block.
pub(crate) fn had_no_memory() -> bool {
    HAD_NO_MEMORY.take()
}

fn keep(action: Action, ptr: u64, bytes: u64, (allocated, reserved): (u64, u64)) {
    NOW.with_borrow_mut(|now| {
        if let Some(now) = now {
            now.decisions.push(Decision {
                action,
                ptr,
                bytes,
                allocated,
                reserved,
                from: now.from,
            });
        }
    });
}

/// Sets the block that is being freed; returns the previous one.
fn freeing(ptr: u64) -> u64 {
    NOW.with_borrow_mut(|now| {
        now.as_mut()
            .map_or(0, |now| core::mem::replace(&mut now.freeing, ptr))
    })
}

/// The pool of an entry, in releases whose entries have it.
fn pool_of(entry: &TraceEntry) -> (u64, u64) {
    // SAFETY: it is an entry of the allocator's.
    let has_pool = unsafe { entry.tail(clock()) } == Some(Tail::PoolAndTime);
    if !has_pool {
        return (0, 0);
    }
    // SAFETY: its tail has a pool.
    unsafe { entry.pool() }
}

/// The allocator calls this with each entry of its trace, while it holds the device's lock.
pub(crate) extern "C-unwind" fn traced(_: *const c_void, entry: &TraceEntry) {
    let action = match entry.action {
        TraceEntry::ALLOC => {
            NOW.with_borrow_mut(|now| {
                if let Some(now) = now {
                    now.from = (entry.stream, pool_of(entry));
                }
            });
            return;
        }
        TraceEntry::SEGMENT_ALLOC => Action::SegmentAlloc,
        TraceEntry::SEGMENT_FREE => Action::SegmentFree,
        TraceEntry::SEGMENT_MAP => Action::Map,
        TraceEntry::SEGMENT_UNMAP => Action::Unmap,
        TraceEntry::FREE_REQUESTED => {
            freeing(entry.ptr);
            return;
        }
        // A block that waits for nothing is back in its pool at once.
        TraceEntry::FREE_COMPLETED if freeing(0) != entry.ptr => Action::Release,
        _ => return,
    };
    keep(action, entry.ptr, entry.bytes, (0, 0));
}

/// A function of a later library that ours replaces.
struct Behind {
    name: &'static CStr,
    address: AtomicUsize,
}

impl Behind {
    const fn new(name: &'static CStr) -> Self {
        Self {
            name,
            address: AtomicUsize::new(0),
        }
    }

    /// Its address; 0 if it does not exist.
    fn get(&self, find: fn(&CStr) -> usize) -> usize {
        match self.address.load(Ordering::Relaxed) {
            0 => {
                let found = find(self.name);
                self.address.store(found, Ordering::Relaxed);
                found
            }
            known => known,
        }
    }
}

static REPORT: Behind = Behind::new(c"_ZN3c1027reportMemoryUsageToProfilerEPvlmmNS_6DeviceE");
static FAILURE: Behind = Behind::new(c"_ZN3c1027reportOutOfMemoryToProfilerElmmNS_6DeviceE");
static MALLOC: Behind = Behind::new(c"cudaMalloc");
static FREE: Behind = Behind::new(c"cudaFree");

/// Whether a `c10::Device` is a card: its type is in the low byte.
fn is_card(device: u16) -> bool {
    device & 0xff == 1
}

/// PyTorch's function of this name: a block was allocated, or freed if `bytes` is negative.
///
/// # Safety
/// As for PyTorch's function.
#[unsafe(no_mangle)]
#[allow(non_snake_case)]
pub unsafe extern "C-unwind" fn _ZN3c1027reportMemoryUsageToProfilerEPvlmmNS_6DeviceE(
    ptr: *mut c_void,
    bytes: i64,
    allocated: u64,
    reserved: u64,
    device: u16,
) {
    if is_card(device) {
        RESERVED.fetch_max(reserved, Ordering::Relaxed);
        let action = match bytes < 0 {
            true => Action::Free,
            false => Action::Alloc,
        };
        freeing(0);
        let figures = (allocated, reserved);
        keep(action, ptr as u64, bytes.unsigned_abs(), figures);
    }
    let real = REPORT.get(real::c10);
    if real != 0 {
        type Report = unsafe extern "C-unwind" fn(*mut c_void, i64, u64, u64, u16);
        // SAFETY: PyTorch's function of this type, with the caller's own arguments.
        unsafe {
            let real: Report = core::mem::transmute(real);
            real(ptr, bytes, allocated, reserved, device);
        }
    }
}

/// PyTorch's function of this name.
///
/// # Safety
/// As for PyTorch's function.
#[unsafe(no_mangle)]
#[allow(non_snake_case)]
pub unsafe extern "C-unwind" fn _ZN3c1027reportOutOfMemoryToProfilerElmmNS_6DeviceE(
    bytes: i64,
    allocated: u64,
    reserved: u64,
    device: u16,
) {
    if is_card(device) {
        HAD_NO_MEMORY.set(true);
        let figures = (allocated, reserved);
        keep(Action::OutOfMemory, 0, bytes.unsigned_abs(), figures);
    }
    let real = FAILURE.get(real::c10);
    if real != 0 {
        type Report = unsafe extern "C-unwind" fn(i64, u64, u64, u16);
        // SAFETY: as above.
        unsafe {
            let real: Report = core::mem::transmute(real);
            real(bytes, allocated, reserved, device);
        }
    }
}

/// The runtime's function of this name.
///
/// # Safety
/// As for the runtime's function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudaMalloc(ptr: *mut *mut c_void, bytes: usize) -> c_int {
    let real = MALLOC.get(real::next);
    if real == 0 {
        return 3; // cudaErrorInitializationError
    }
    // SAFETY: the runtime's function of this type, with the caller's own arguments.
    let result = unsafe {
        let real: unsafe extern "C" fn(*mut *mut c_void, usize) -> c_int =
            core::mem::transmute(real);
        real(ptr, bytes)
    };
    calls::MALLOC.count(result == 0);
    if result != 0 {
        keep(Action::Refused, 0, bytes as u64, (0, 0));
    }
    result
}

/// The runtime's function of this name.
///
/// # Safety
/// As for the runtime's function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudaFree(ptr: *mut c_void) -> c_int {
    let real = FREE.get(real::next);
    if real == 0 {
        return 3; // cudaErrorInitializationError
    }
    // SAFETY: as above.
    let result = unsafe {
        let real: unsafe extern "C" fn(*mut c_void) -> c_int = core::mem::transmute(real);
        real(ptr)
    };
    calls::FREE.count(result == 0);
    result
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(action: i32, ptr: u64) -> TraceEntry {
        TraceEntry {
            action,
            device: 0,
            ptr,
            context: [0; 2],
            stream: 0,
            bytes: 512,
        }
    }

    #[test]
    fn a_block_that_waited_is_released_and_others_are_freed() {
        begin();
        let nothing = core::ptr::null();
        let free = |ptr: u64| {
            // SAFETY: the function reads nothing through its pointer.
            unsafe {
                _ZN3c1027reportMemoryUsageToProfilerEPvlmmNS_6DeviceE(
                    ptr as *mut c_void,
                    -512,
                    0,
                    0,
                    1,
                );
            }
        };
        traced(nothing, &entry(TraceEntry::FREE_REQUESTED, 64));
        traced(nothing, &entry(TraceEntry::FREE_COMPLETED, 64));
        free(64);
        traced(nothing, &entry(TraceEntry::FREE_REQUESTED, 128));
        free(128);
        traced(nothing, &entry(TraceEntry::FREE_COMPLETED, 128));
        let mut found = Vec::new();
        take(&mut found);
        let found: Vec<_> = found.iter().map(|of| (of.action, of.ptr)).collect();
        let expected = [
            (Action::Free, 64),
            (Action::Free, 128),
            (Action::Release, 128),
        ];
        assert_eq!(found, expected);
        end();
    }

    #[test]
    fn a_failure_for_want_of_memory_is_told_once() {
        assert!(!had_no_memory());
        // SAFETY: no PyTorch is loaded here that the call would be forwarded to.
        unsafe { _ZN3c1027reportOutOfMemoryToProfilerElmmNS_6DeviceE(512, 0, 0, 1) };
        assert!(had_no_memory() && !had_no_memory());
        // SAFETY: as above; the call concerns another device.
        unsafe { _ZN3c1027reportOutOfMemoryToProfilerElmmNS_6DeviceE(512, 0, 0, 0) };
        assert!(!had_no_memory());
    }
}
