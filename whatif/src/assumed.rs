//! What a replay takes for what a capture does not say. python/gpumem/_whatif/unknown.py has the same numbers.

/// A set of assumptions.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Assumed(pub(crate) u64);

impl Assumed {
    /// A request was the least that can have had its block; else it was as large as the block.
    pub(crate) const LEAST: u64 = 1;
    /// A block waited for other streams until it was surely back; else it was back at once.
    pub(crate) const LATE: u64 = 2;
    /// Requests are not known, though the capture has them.
    pub(crate) const NO_REQUESTS: u64 = 1 << 8;
    /// Nor when blocks that waited were back.
    pub(crate) const NO_RELEASES: u64 = 1 << 9;
    /// Nor which blocks were used on other streams.
    pub(crate) const NO_USES: u64 = 1 << 10;

    pub(crate) fn has(self, one: u64) -> bool {
        self.0 & one != 0
    }
}
