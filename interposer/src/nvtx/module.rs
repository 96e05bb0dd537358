//! The modules of NVTX's table of callbacks.

/// Maximum number of functions of a module: more than any module has.
pub(super) const MOST: usize = 16;

/// `NvtxCallbackModule`: the two modules with ranges.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Module {
    Core = 1,
    /// Domains.
    Core2 = 5,
}
