//! How the card stands behind what was asked for.

/// Bytes by how they are backed.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Backed {
    pub pages: u64,
    pub handles: u64,
    pub pools: u64,
    pub graphs: u64,
}

impl Backed {
    /// All of it.
    pub fn sum(self) -> u64 {
        self.pages + self.handles + self.pools + self.graphs
    }
}
