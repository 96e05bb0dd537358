//! The physical memory behind requested bytes.

/// Bytes by their kind of physical memory.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Backed {
    pub pages: u64,
    pub handles: u64,
    pub pools: u64,
    pub graphs: u64,
}

impl Backed {
    /// The sum.
    pub fn sum(self) -> u64 {
        self.pages + self.handles + self.pools + self.graphs
    }
}
