//! The process: its identity, and its state of recording.

use core::cell::UnsafeCell;
use core::ffi::c_void;
use core::ptr::null_mut;
use core::sync::atomic::{
    AtomicBool, AtomicI32, AtomicI64, AtomicPtr, AtomicU8, AtomicU32, AtomicU64, AtomicUsize,
    Ordering,
};
use std::sync::OnceLock;

use gpumem_capture::{Coordinates, Ended, Writer};

/// See the diagram of [`crate::open`].
#[derive(Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum State {
    Dormant,
    Opening,
    Recording,
    Off,
}

/// Words of the mask that is read while the library is loaded: 8192 processors, more than Linux supports on
/// x86-64.
pub(crate) const WORDS: usize = 128;

/// The processors at the time when the library was loaded.
#[repr(C, align(64))]
pub(crate) struct Affinity {
    /// Written once, before any code of the process runs.
    pub(crate) mask: UnsafeCell<[u64; WORDS]>,
    /// The number of bytes that the kernel has filled; an error number below 0; 0 if it was not queried.
    pub(crate) filled: AtomicI64,
    /// The mask, if that room was not enough.
    pub(crate) larger: OnceLock<Vec<u64>>,
}

// SAFETY: the mask is written by the loader's one thread while it loads the library, and read afterwards.
unsafe impl Sync for Affinity {}

/// Bytes of the reserve: address space, and memory only where it is used.
pub(crate) const RESERVE: usize = 4 << 20;

/// Memory that is given out once: [`crate::memory`].
#[repr(C, align(4096))]
pub(crate) struct Reserve {
    pub(crate) bytes: UnsafeCell<[u8; RESERVE]>,
    /// How many of its bytes are given out.
    pub(crate) taken: AtomicUsize,
}

// SAFETY: each byte is given out once.
unsafe impl Sync for Reserve {}

/// The state of the process before there is a session, and the pointers to later state.
pub(crate) struct Process {
    /// A [`State`].
    pub(crate) state: AtomicU8,
    /// The process that is opening: a child forked meanwhile must not wait for it.
    pub(crate) opener: AtomicU32,
    /// The session, whose type is defined in [`crate::session`], which reads and writes it.
    pub(crate) session: AtomicPtr<c_void>,
    /// The session's capture.
    writer: AtomicPtr<Writer>,
    /// Device and inode of stderr when the library was loaded; 0 if it was closed.
    pub(crate) stderr: AtomicU64,
    /// Whether its reader did not read when the last line was to be written.
    pub(crate) stderr_is_stuck: AtomicBool,
    pub(crate) affinity: Affinity,
    /// How many libraries were loaded with the program, in the loader's order; 0 before that is known.
    pub(crate) libraries: AtomicUsize,
    /// The recorder's threads; 0 for a free place.
    pub(crate) threads: [AtomicI32; 16],
    /// The process whose first thread has ended; 0 for none.
    pub(crate) first_ended: AtomicU32,
    /// The key of the value that marks the end of the first thread, and 1 << 32; 0 before there is one.
    pub(crate) first_key: AtomicU64,
    /// For when the program's allocator has no more.
    pub(crate) reserve: Reserve,
    /// Coordinates from the program that wait for a capture: [`crate::coords`] owns the target.
    pub(crate) coordinates: AtomicPtr<Coordinates>,
}

pub(crate) static PROCESS: Process = Process {
    state: AtomicU8::new(State::Dormant as u8),
    opener: AtomicU32::new(0),
    session: AtomicPtr::new(null_mut()),
    writer: AtomicPtr::new(null_mut()),
    stderr: AtomicU64::new(0),
    stderr_is_stuck: AtomicBool::new(false),
    affinity: Affinity {
        mask: UnsafeCell::new([0; WORDS]),
        filled: AtomicI64::new(0),
        larger: OnceLock::new(),
    },
    libraries: AtomicUsize::new(0),
    threads: [const { AtomicI32::new(0) }; 16],
    first_ended: AtomicU32::new(0),
    first_key: AtomicU64::new(0),
    reserve: Reserve {
        bytes: UnsafeCell::new([0; RESERVE]),
        taken: AtomicUsize::new(0),
    },
    coordinates: AtomicPtr::new(null_mut()),
};

/// Ends the recording of this process, if there is one. Waits for nothing and allocates nothing.
pub(crate) fn end_recording(reason: Ended) {
    // SAFETY: null, or the writer of `records_to`, published with Release.
    if let Some(writer) = unsafe { PROCESS.writer.load(Ordering::Acquire).as_ref() }
        && writer.is_of_this_process()
    {
        writer.abandon(reason);
    }
}

/// Sets `writer` as the capture of this process.
pub(crate) fn records_to(writer: &'static Writer) {
    let writer = core::ptr::from_ref(writer).cast_mut();
    PROCESS.writer.store(writer, Ordering::Release);
}

/// Whether nothing will be recorded in this process any more: it is a child forked from one that records, or
/// its capture could not be opened. The recorder's state must then not be accessed, because another thread may
/// have held its locks at the fork.
pub(crate) fn is_aside() -> bool {
    // SAFETY: null, or the writer of `records_to`, published with Release.
    match unsafe { PROCESS.writer.load(Ordering::Acquire).as_ref() } {
        Some(writer) => !writer.is_own_process(),
        None => PROCESS.state.load(Ordering::Relaxed) == State::Off as u8,
    }
}
