//! What the recorder's threads are to do.

/// What the drain and the thread that writes the file are to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub(crate) enum Phase {
    /// Go on.
    Run,
    /// Write all there is, then stay where they are.
    Pause,
    /// Write all there is and return.
    Stop,
    /// The same, and leave nothing of the ring.
    Close,
}
