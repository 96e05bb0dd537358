//! The address range of a module.

/// The address range of a module in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// First address.
    pub start: u64,
    /// First address after the module.
    pub end: u64,
    /// Load address minus link address.
    pub bias: u64,
}

impl Span {
    /// An empty range.
    pub const NONE: Self = Self {
        start: 0,
        end: 0,
        bias: 0,
    };

    /// Whether `address` lies in it.
    pub fn contains(&self, address: u64) -> bool {
        (self.start..self.end).contains(&address)
    }
}
