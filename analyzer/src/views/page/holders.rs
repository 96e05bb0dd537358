//! Who kept the tensors.

use serde::Serialize;

use super::input::{PageLimits, clip};
use crate::views::Holders;

/// How many holders the first section shows.
const HOLDERS: usize = 5;

/// The Python objects that kept the tensors of a device.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct PageCauseHolders {
    /// The largest ones: the name, the place, bytes and blocks.
    pub rows: Vec<(String, String, u64, u64)>,
    /// Bytes of all tensors.
    pub live: u64,
    /// Why the search was not completed.
    pub cut: Option<&'static str>,
}

impl PageCauseHolders {
    pub(super) fn of(holders: &Holders, limits: PageLimits) -> Self {
        let clip = |text: &str| clip(text, limits.name);
        let rows = holders.rows.iter().take(HOLDERS);
        Self {
            rows: rows
                .map(|of| (clip(&of.name()), clip(&of.place), of.bytes, of.blocks))
                .collect(),
            live: holders.live_bytes,
            cut: holders.why_cut(),
        }
    }
}
