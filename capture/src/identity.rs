//! Which capture it is, by its first bytes.

use crate::Header;
use crate::header::StaticHeader;
use crate::layout::{STATIC_BYTES, STATIC_COPIES};

/// What tells a capture from all others.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Identity {
    /// Random number of the capture. Of one that was imported it is made of what was imported.
    pub nonce: u64,
    /// Process that was recorded.
    pub pid: u32,
    /// Wall clock when the capture was opened: ns since 1970-01-01 UTC.
    pub started_wall_ns: u64,
}

impl Identity {
    /// A capture's first bytes that say it.
    pub const BYTES: usize = STATIC_BYTES;

    /// Of a capture's first bytes. If there are more than [`Identity::BYTES`] of them, a damaged header's second copy is
    /// looked for. `None`: they are no capture's, or damaged.
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
