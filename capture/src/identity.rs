//! The identity of a capture, from its first bytes.

use crate::Header;
use crate::header::StaticHeader;
use crate::layout::{STATIC_BYTES, STATIC_COPIES};

/// The fields that identify a capture.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Identity {
    /// Random number of the capture. For an imported capture it is derived from the imported data.
    pub nonce: u64,
    /// Process that was recorded.
    pub pid: u32,
    /// Wall clock when the capture was opened: ns since 1970-01-01 UTC.
    pub started_wall_ns: u64,
}

impl Identity {
    /// The number of first bytes of a capture that contain its identity.
    pub const BYTES: usize = STATIC_BYTES;

    /// The identity in the first bytes of a capture. With more than [`Identity::BYTES`] bytes, the second copy of a
    /// damaged header is searched for. `None` if they do not belong to a capture, or are damaged.
    pub fn of_head(head: &[u8]) -> Option<Self> {
        let copies = STATIC_COPIES.into_iter().filter_map(|offset| {
            let from = usize::try_from(offset).ok()?;
            let copy = head.get(from..from.checked_add(STATIC_BYTES)?)?;
            StaticHeader::decode(copy.try_into().ok()?).ok()
        });
        let header = copies.into_iter().next()?;
        Some(Self {
            nonce: header.nonce,
            pid: header.pid,
            started_wall_ns: header.started_wall,
        })
    }
}

impl From<&Header> for Identity {
    fn from(header: &Header) -> Self {
        Self {
            nonce: header.nonce,
            pid: header.pid,
            started_wall_ns: header.started_wall_ns,
        }
    }
}
