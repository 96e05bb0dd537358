//! Where a module lies.

/// Where a module lies in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// First address.
    pub start: u64,
    /// First address behind it.
    pub end: u64,
    /// Load address less link address.
    pub bias: u64,
}

impl Span {
    /// Of nothing.
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
