//! What a first reading leaves to be known of a rank that differs.

use super::steps::Window;

/// Peers that a rank is compared with, those nearest to their median.
const PEERS: usize = 8;
/// Steps that are kept of a capture for one rank: what is told of longer runs is a range.
const STEPS: u64 = 1 << 14;

/// What is to be known of a rank whose step is not exact.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Open {
    /// The steps that must be seen.
    pub(super) window: Window,
    /// With whom it is compared.
    pub(super) peers: Vec<u64>,
    /// By how much it must come to differ.
    pub(super) least: u64,
}

impl Open {
    /// `until`: the last step that must be seen. `peers` may be any number, nearest to their median first.
    pub(super) fn new(until: u64, peers: impl Iterator<Item = u64>, least: u64) -> Self {
        Self {
            window: Window {
                from: until.saturating_sub(STEPS),
                until,
            },
            peers: peers.take(PEERS).collect(),
            least,
        }
    }
}
