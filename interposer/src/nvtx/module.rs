//! The modules of NVTX's table of callbacks.

/// Functions of a module that are known: more than any has.
pub(super) const MOST: usize = 16;

/// `NvtxCallbackModule`: the two that have ranges.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Module {
    Core = 1,
    /// Domains.
    Core2 = 5,
}
