//! What must be read again for a rank that differs.

use super::steps::Window;

/// The maximum number of peers that a rank is compared with: those nearest to the median.
const PEERS: usize = 8;
/// The maximum number of steps that are kept of a capture for one rank. For longer runs, the result stays a range.
const STEPS: u64 = 1 << 14;

/// What must be read again for a rank whose step is not exact.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Open {
    /// The steps that must be read.
    pub(super) window: Window,
    /// The peers to compare with.
    pub(super) peers: Vec<u64>,
    /// The least difference.
    pub(super) least: u64,
}

impl Open {
    /// `until` is the last step that must be read. `peers` may be any number, nearest to the median first.
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
