//! Streams and events. The simulated device is never busy: work is done when it is submitted,
//! unless it is captured (see [`capture`](super::capture)).

use crate::ffi::Handle;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

/// `CU_STREAM_NON_BLOCKING`.
pub const NON_BLOCKING: u32 = 1;

/// A stream that a client created.
#[derive(Clone, Copy, Debug)]
pub struct Stream {
    /// Its context.
    pub context: usize,
    /// Its device.
    pub device: usize,
    /// `CUstream_flags`.
    pub flags: u32,
    /// Its priority: 0 lowest, -5 highest.
    pub priority: i32,
    /// Its number, which is never reused.
    pub id: u64,
}

/// An event.
#[derive(Clone, Debug)]
pub struct Event {
    /// Its context.
    pub context: usize,
    /// `CUevent_flags`.
    pub flags: u32,
    /// When it was last recorded.
    pub recorded: Option<Instant>,
    /// The point in a capture at which it was last recorded, if it was captured.
    pub captured: Option<Captured>,
}

/// A point in a capture.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Captured {
    /// The capture.
    pub capture: u64,
    /// The nodes before it.
    pub nodes: Vec<usize>,
}

/// The stream of a call; default streams are distinguished.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct On(pub(crate) usize);

/// The first number of the threads' own default streams, in a range without handles.
pub(crate) const OWN: usize = 0x5c_00ff << 32;

impl On {
    /// The legacy default stream.
    pub const LEGACY: Self = Self(1);

    /// The stream of an ordinary function: null is the legacy stream.
    pub fn legacy(stream: Handle) -> Self {
        match stream {
            0 | 1 => Self::LEGACY,
            2 => Self::own_default(),
            other => Self(other),
        }
    }

    /// The stream of a per-thread function (`_ptsz`): null is the thread's own stream.
    pub fn own(stream: Handle) -> Self {
        Self::legacy(if stream == 0 { 2 } else { stream })
    }

    pub(crate) fn own_default() -> Self {
        Self(OWN + this_thread())
    }

    /// Whether it is a default stream.
    pub fn is_default(self) -> bool {
        self == Self::LEGACY || self.0 > OWN && self.0 < OWN + (1 << 32)
    }

    /// The handle of a stream that is not a default stream.
    pub fn handle(self) -> Handle {
        self.0
    }
}

/// The calling thread's number, from 1 on.
pub fn this_thread() -> usize {
    static NEXT: AtomicUsize = AtomicUsize::new(1);
    thread_local!(static NUMBER: usize = NEXT.fetch_add(1, Ordering::Relaxed));
    NUMBER.with(|number| *number)
}
