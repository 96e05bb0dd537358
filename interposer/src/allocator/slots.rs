//! The slots of the allocator's table of virtual functions.

use core::ffi::CStr;
use core::ops::ControlFlow;
use core::sync::atomic::{AtomicBool, AtomicU8, AtomicUsize, Ordering};

use gpumem_sys::loaded;
use gpumem_torch_abi::{self as torch, Backend, CURRENT_STREAM, Library, Method, STREAM_HANDLE};

use super::calls::{self, Reals};
use crate::resolve::libraries::{self, Home};

/// The allocator that the process has, found before it is set up and so before any session.
pub(super) struct Slots {
    looked: AtomicBool,
    backend: AtomicU8,
    object: AtomicUsize,
    /// `attachAllocatorTraceTracker`.
    attach: AtomicUsize,
    current_stream: AtomicUsize,
    stream_handle: AtomicUsize,
    reals: Reals,
}

static SLOTS: Slots = Slots {
    looked: AtomicBool::new(false),
    backend: AtomicU8::new(0),
    object: AtomicUsize::new(0),
    attach: AtomicUsize::new(0),
    current_stream: AtomicUsize::new(0),
    stream_handle: AtomicUsize::new(0),
    reals: Reals::new(),
};

/// The functions that PyTorch has for streams.
#[derive(Clone, Copy)]
pub(super) struct StreamFunctions {
    pub(super) current: usize,
    pub(super) handle: usize,
}

pub(super) fn reals() -> &'static Reals {
    &SLOTS.reals
}

/// Whether calls are recorded.
pub(super) fn are_taken() -> bool {
    SLOTS.reals.record_stream.load(Ordering::Acquire) != 0
}

/// The allocator's name, if it is known.
pub(crate) fn backend() -> Option<&'static str> {
    let number = usize::from(SLOTS.backend.load(Ordering::Acquire));
    let all = [Backend::Native, Backend::Async, Backend::Pluggable];
    all.get(number.checked_sub(1)?)
        .map(|backend| backend.name())
}

pub(super) fn stream_functions() -> Option<StreamFunctions> {
    let found = StreamFunctions {
        current: SLOTS.current_stream.load(Ordering::Acquire),
        handle: SLOTS.stream_handle.load(Ordering::Acquire),
    };
    (found.current != 0 && found.handle != 0).then_some(found)
}

/// The allocator and the function by which its trace is asked for.
pub(super) fn attach_trace() -> Option<(usize, usize)> {
    let attach = SLOTS.attach.load(Ordering::Acquire);
    (attach != 0).then(|| (SLOTS.object.load(Ordering::Acquire), attach))
}

/// Looks for the allocator, once; whether that was done now. PyTorch is about to set it up, on this thread.
pub(crate) fn take() -> bool {
    if SLOTS.looked.swap(true, Ordering::AcqRel) {
        return false;
    }
    let find = |home, name: &CStr| libraries::find(home, name, 0);
    SLOTS
        .current_stream
        .store(find(Home::C10Cuda, CURRENT_STREAM), Ordering::Release);
    SLOTS
        .stream_handle
        .store(find(Home::C10Cuda, STREAM_HANDLE), Ordering::Release);
    let symbol = |library, name: &CStr| match library {
        Library::C10Cuda => find(Home::C10Cuda, name),
        Library::TorchCuda => find(Home::TorchCuda, name),
    };
    let Some(found) = torch::find(symbol) else {
        return true;
    };
    SLOTS.backend.store(
        found.backend.map_or(0, |backend| backend as u8 + 1),
        Ordering::Release,
    );
    let Some(table) = found.table else {
        return true;
    };
    SLOTS.object.store(table.object, Ordering::Release);
    SLOTS.attach.store(
        table
            .function(Method::AttachAllocatorTraceTracker)
            .unwrap_or(0),
        Ordering::Release,
    );
    let reals = &SLOTS.reals;
    let all = [
        (
            Method::EmptyCache,
            calls::empty_cache as *const () as usize,
            &reals.empty_cache,
        ),
        (
            Method::SetMemoryFraction,
            calls::set_fraction as *const () as usize,
            &reals.set_fraction,
        ),
        (
            Method::BeginAllocateToPool,
            calls::pool_begin as *const () as usize,
            &reals.pool_begin,
        ),
        (
            Method::EndAllocateToPool,
            calls::pool_end as *const () as usize,
            &reals.pool_end,
        ),
        (
            Method::ReleasePool,
            calls::pool_release as *const () as usize,
            &reals.pool_release,
        ),
        (
            Method::CreateOrIncrefPool,
            calls::pool_retain as *const () as usize,
            &reals.pool_retain,
        ),
        (
            Method::SetUseOnOom,
            calls::use_on_oom as *const () as usize,
            &reals.use_on_oom,
        ),
        (
            Method::SetNoSplit,
            calls::no_split as *const () as usize,
            &reals.no_split,
        ),
        (
            Method::MarkCaptureBegin,
            calls::capture_begin as *const () as usize,
            &reals.capture_begin,
        ),
        (
            Method::MarkCaptureEnd,
            calls::capture_end as *const () as usize,
            &reals.capture_end,
        ),
        (
            Method::SetCheckpointPoolState,
            calls::checkpoint as *const () as usize,
            &reals.checkpoint,
        ),
        // Last: whether it is taken says that all are.
        (
            Method::RecordStream,
            calls::record_stream as *const () as usize,
            &reals.record_stream,
        ),
    ];
    // A replay needs all of them.
    if all.iter().all(|(method, ..)| table.slot(*method).is_some()) {
        for (method, ours, real) in all {
            let Some(slot) = table.slot(method).map(|slot| table.place(slot)) else {
                break;
            };
            real.store(slot.load(Ordering::Acquire), Ordering::Release);
            if !write(slot, ours) {
                break;
            }
        }
    }
    true
}

/// Puts a function into a slot, whose page is writable only meanwhile; whether that could be done.
fn write(slot: &AtomicUsize, function: usize) -> bool {
    const PAGE: usize = 4096;
    let address = core::ptr::from_ref(slot) as usize;
    let read_only = loaded::find(|library| match library.holds(address) {
        true => ControlFlow::Break(library.is_relocated_read_only(address)),
        false => ControlFlow::Continue(()),
    });
    let Some(read_only) = read_only else {
        return false;
    };
    let protect = |access| {
        // SAFETY: the page is one of a library's data, of which nothing but a slot changes.
        unsafe { libc::mprotect((address & !(PAGE - 1)) as *mut _, PAGE, access) == 0 }
    };
    if read_only && !protect(libc::PROT_READ | libc::PROT_WRITE) {
        return false;
    }
    slot.store(function, Ordering::Release);
    if read_only {
        protect(libc::PROT_READ);
    }
    true
}
