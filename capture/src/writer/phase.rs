//! The phases of the recorder's threads.

/// What the drain and the thread that writes the file must do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub(crate) enum Phase {
    /// Continue.
    Run,
    /// Write everything, then wait.
    Pause,
    /// Write everything and return.
    Stop,
    /// The same, and remove the ring.
    Close,
}
