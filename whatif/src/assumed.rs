//! Assumptions of a replay about what a capture lacks. python/gpumem/_whatif/unknown.py has the same numbers.

/// A set of assumptions.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Assumed(pub(crate) u64);

impl Assumed {
    /// A request was the smallest that can have had its block; else it was as large as the block.
    pub(crate) const LEAST: u64 = 1;
    /// A block waited for other streams until it was certainly back in the pool; else it was back at once.
    pub(crate) const LATE: u64 = 2;
    /// Treats requests as unknown, even if the capture has them.
    pub(crate) const NO_REQUESTS: u64 = 1 << 8;
    /// Treats the times at which waiting blocks were back as unknown, too.
    pub(crate) const NO_RELEASES: u64 = 1 << 9;
    /// Treats the uses of blocks on other streams as unknown, too.
    pub(crate) const NO_USES: u64 = 1 << 10;

    pub(crate) fn has(self, one: u64) -> bool {
        self.0 & one != 0
    }
}
