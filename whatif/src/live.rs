//! Live blocks of a replay.

/// A live block.
#[derive(Clone, Copy)]
pub(crate) struct Live {
    /// Its address in this process.
    pub(crate) block: u64,
    /// The handle of its stream in this process.
    pub(crate) stream: u64,
    pub(crate) pool: (u64, u64),
    /// Its size in the capture.
    pub(crate) bytes: u64,
}

impl Live {
    pub(crate) fn is_of_pool(&self) -> bool {
        self.pool != (0, 0)
    }
}
