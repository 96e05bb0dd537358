//! The allocator of the process.

use core::mem::transmute;
use core::sync::atomic::{AtomicBool, AtomicU8, AtomicUsize, Ordering};

use gpumem_torch_abi::{Address, Backend, IdOf, Method, PoolId};

/// The number of methods.
const METHODS: usize = Method::RawDeleter as usize + 1;

/// The allocator of the process, found before it is set up and so before any session.
pub(super) struct Slots {
    pub(super) looked: AtomicBool,
    pub(super) backend: AtomicU8,
    pub(super) object: AtomicUsize,
    /// `attachAllocatorTraceTracker`.
    pub(super) attach: AtomicUsize,
    /// `attachOutOfMemoryObserver`.
    pub(super) observe: AtomicUsize,
    pub(super) current_stream: AtomicUsize,
    pub(super) stream_handle: AtomicUsize,
    /// See [`active_pool`]; 0 if this release does not have it.
    pub(super) active_pool: AtomicUsize,
    pub(super) pool_id: AtomicUsize,
    /// The original functions of the slots, by [`Method`]; 0 if the slot is not replaced.
    reals: [AtomicUsize; METHODS],
}

pub(super) static SLOTS: Slots = Slots {
    looked: AtomicBool::new(false),
    backend: AtomicU8::new(0),
    object: AtomicUsize::new(0),
    attach: AtomicUsize::new(0),
    observe: AtomicUsize::new(0),
    current_stream: AtomicUsize::new(0),
    stream_handle: AtomicUsize::new(0),
    active_pool: AtomicUsize::new(0),
    pool_id: AtomicUsize::new(0),
    reals: [const { AtomicUsize::new(0) }; METHODS],
};

/// PyTorch's functions for streams.
#[derive(Clone, Copy)]
pub(super) struct StreamFunctions {
    pub(super) current: usize,
    pub(super) handle: usize,
}

/// The original function of a method's slot.
pub(super) fn real(method: Method) -> &'static AtomicUsize {
    &SLOTS.reals[method as usize]
}

/// Whether calls are recorded.
pub(super) fn are_taken() -> bool {
    real(Method::RecordStream).load(Ordering::Acquire) != 0
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

/// The allocator and the function that attaches a callback to its trace.
pub(super) fn attach_trace() -> Option<(usize, usize)> {
    let attach = SLOTS.attach.load(Ordering::Acquire);
    (attach != 0).then(|| (SLOTS.object.load(Ordering::Acquire), attach))
}

/// The allocator and the function that attaches an observer of its failures.
pub(crate) fn attach_observer() -> Option<(usize, usize)> {
    let attach = SLOTS.observe.load(Ordering::Acquire);
    (attach != 0).then(|| (SLOTS.object.load(Ordering::Acquire), attach))
}

/// The active pool of the calling thread.
pub(super) fn active_pool() -> Option<(u64, u64)> {
    let active = SLOTS.active_pool.load(Ordering::Acquire);
    let id = SLOTS.pool_id.load(Ordering::Acquire);
    if active == 0 || id == 0 {
        return None;
    }
    // SAFETY: the addresses are those of PyTorch's functions of these types; the first one takes nothing, and gives a pool
    // that lives as long as it is active.
    let PoolId(first, second) = unsafe {
        let (active, id): (Address, IdOf) = (
            transmute::<usize, Address>(active),
            transmute::<usize, IdOf>(id),
        );
        let pool = active(0);
        if pool == 0 {
            return None;
        }
        id(pool)
    };
    Some((first, second))
}
