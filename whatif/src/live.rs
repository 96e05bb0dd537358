//! Blocks that a replay holds.

/// A block that is held.
#[derive(Clone, Copy)]
pub(crate) struct Live {
    /// Its address here.
    pub(crate) block: u64,
    /// The stream that it is of, by its handle here.
    pub(crate) stream: u64,
    pub(crate) pool: (u64, u64),
    /// As it was recorded.
    pub(crate) bytes: u64,
}

impl Live {
    pub(crate) fn is_of_pool(&self) -> bool {
        self.pool != (0, 0)
    }
}
