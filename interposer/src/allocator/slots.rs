//! The slots of the allocator's table of virtual functions.
//!
//! The allocator's class is hidden. But `CUDAPluggableAllocator` derives from the same base and exports its table and its
//! functions: the place of a function in that table is its place in every other one.

use core::ffi::{CStr, c_char};
use core::ops::ControlFlow;
use core::sync::atomic::{AtomicBool, AtomicU8, AtomicUsize, Ordering};

use gpumem_sys::loaded;

use super::calls::{self, Reals};
use super::streams;
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

/// Names of PyTorch's allocators, and of their classes.
const BACKENDS: [(&str, &[u8]); 3] = [
    (
        "native",
        b"N3c104cuda20CUDACachingAllocator6Native22NativeCachingAllocatorE",
    ),
    ("cudaMallocAsync", b"CudaMallocAsyncAllocator"),
    ("pluggable", b"CUDAPluggableAllocator"),
];
/// The most slots that a table has.
const MOST: usize = 80;

const ALLOCATOR: &CStr = c"_ZN3c104cuda20CUDACachingAllocator9allocatorE";

macro_rules! pluggable {
    ($($tail:literal),*) => {
        [$(match CStr::from_bytes_with_nul(
            concat!("_ZN5torch4cuda22CUDAPluggableAllocator22CUDAPluggableAllocator", $tail, "\0").as_bytes(),
        ) {
            Ok(name) => name,
            Err(_) => c"",
        }),*]
    };
}

const TABLE: &CStr = c"_ZTVN5torch4cuda22CUDAPluggableAllocator22CUDAPluggableAllocatorE";
const METHODS: [&CStr; 10] = pluggable![
    "12recordStreamERKN3c107DataPtrENS3_4cuda10CUDAStreamE",
    "10emptyCacheESt4pairIyyE",
    "17setMemoryFractionEda",
    "19beginAllocateToPoolEaSt4pairIyyESt8functionIFbP11CUstream_stEE",
    "17endAllocateToPoolEaSt4pairIyyE",
    "11releasePoolEaSt4pairIyyE",
    "14shareIpcHandleEPv",
    "22setCheckpointPoolStateEaSt10shared_ptrIN3c104cuda20CUDACachingAllocator14AllocatorStateEE",
    "27attachAllocatorTraceTrackerESt8functionIFvRKN3c1022CachingDeviceAllocator10TraceEntryEEE",
    "27attachAllocatorTraceTrackerESt8functionIFvRKN3c104cuda20CUDACachingAllocator10TraceEntryEEE"
];

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
    BACKENDS.get(number.checked_sub(1)?).map(|(name, _)| *name)
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
        .store(find(Home::C10Cuda, streams::CURRENT), Ordering::Release);
    SLOTS
        .stream_handle
        .store(find(Home::C10Cuda, streams::HANDLE), Ordering::Release);
    let place = find(Home::C10Cuda, ALLOCATOR) as *const AtomicUsize;
    // SAFETY: the variable is an atomic pointer.
    let object = unsafe { place.as_ref() }.map_or(0, |place| place.load(Ordering::Acquire));
    if object == 0 {
        return true;
    }
    // SAFETY: an object of a class with virtual functions begins with the address of its table.
    let table = unsafe { *(object as *const *mut AtomicUsize) };
    let number = BACKENDS.iter().position(|(_, class)| {
        // SAFETY: the table is that of a class of the Itanium ABI.
        let name = unsafe { class_of(table) };
        name.windows(class.len()).any(|part| part == *class)
    });
    SLOTS.backend.store(
        number.map_or(0, |number| number as u8 + 1),
        Ordering::Release,
    );
    let known = find(Home::TorchCuda, TABLE) as *const usize;
    if number != Some(0) || known.is_null() {
        return true;
    }
    SLOTS.object.store(object, Ordering::Release);
    let addresses = METHODS.map(|name| find(Home::TorchCuda, name));
    let slot = |address: usize| {
        // SAFETY: behind the offset to the top and the type come the functions; a table that is shorter is followed by
        // other data of its library.
        let functions = unsafe { core::slice::from_raw_parts(known.add(2), MOST) };
        functions
            .iter()
            .position(|function| address != 0 && *function == address)
    };
    let [
        record,
        empty,
        fraction,
        begin,
        end,
        release,
        share,
        checkpoint,
        attach,
        attach_old,
    ] = addresses.map(slot);
    if let Some(slot) = attach.or(attach_old) {
        // SAFETY: it is a slot of the table.
        let function = unsafe { &*table.add(slot) };
        SLOTS
            .attach
            .store(function.load(Ordering::Acquire), Ordering::Release);
    }
    // Those without a name are known by their neighbours.
    let marks = end.filter(|end| release == Some(end + 3));
    let pools = release.filter(|release| share == Some(release + 6));
    let after = |slot: Option<usize>, by: usize| slot.map(|slot| slot + by);
    let reals = &SLOTS.reals;
    let all = [
        (
            empty,
            calls::empty_cache as *const () as usize,
            &reals.empty_cache,
        ),
        (
            fraction,
            calls::set_fraction as *const () as usize,
            &reals.set_fraction,
        ),
        (
            begin,
            calls::pool_begin as *const () as usize,
            &reals.pool_begin,
        ),
        (end, calls::pool_end as *const () as usize, &reals.pool_end),
        (
            release,
            calls::pool_release as *const () as usize,
            &reals.pool_release,
        ),
        (
            after(pools, 2),
            calls::pool_retain as *const () as usize,
            &reals.pool_retain,
        ),
        (
            after(pools, 3),
            calls::use_on_oom as *const () as usize,
            &reals.use_on_oom,
        ),
        (
            after(pools, 4),
            calls::no_split as *const () as usize,
            &reals.no_split,
        ),
        (
            after(marks, 1),
            calls::capture_begin as *const () as usize,
            &reals.capture_begin,
        ),
        (
            after(marks, 2),
            calls::capture_end as *const () as usize,
            &reals.capture_end,
        ),
        (
            checkpoint,
            calls::checkpoint as *const () as usize,
            &reals.checkpoint,
        ),
        // Last: whether it is taken says that all are.
        (
            record,
            calls::record_stream as *const () as usize,
            &reals.record_stream,
        ),
    ];
    // A replay needs all of them.
    if all.iter().all(|(slot, ..)| slot.is_some()) {
        for (slot, ours, real) in all {
            // SAFETY: the slots are those of the table.
            let slot = unsafe { &*table.add(slot.unwrap_or(0)) };
            real.store(slot.load(Ordering::Acquire), Ordering::Release);
            if !write(slot, ours) {
                break;
            }
        }
    }
    true
}

/// The mangled name of a class.
///
/// # Safety
/// It is a table of virtual functions of the Itanium ABI, past its head.
unsafe fn class_of(table: *const AtomicUsize) -> &'static [u8] {
    // SAFETY: before the functions stands the address of the class's `type_info`, whose second word is that of its name;
    // both stay with the library, which PyTorch never unloads.
    unsafe {
        let type_info = *table.cast::<*const *const c_char>().sub(1);
        match type_info.is_null() {
            true => b"",
            false => CStr::from_ptr(*type_info.add(1)).to_bytes(),
        }
    }
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
