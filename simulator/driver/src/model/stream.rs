//! Streams and events. The simulated device is never busy: work is done when it is asked for.

use std::time::Instant;

/// A stream that a client made.
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
    /// Its number, never used again.
    pub id: u64,
}

/// An event.
#[derive(Clone, Copy, Debug)]
pub struct Event {
    /// Its context.
    pub context: usize,
    /// `CUevent_flags`.
    pub flags: u32,
    /// When it was last recorded.
    pub recorded: Option<Instant>,
}
