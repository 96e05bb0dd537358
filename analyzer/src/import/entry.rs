//! An entry of a trace.

use super::fields::{self, Fields, PoolId};
use crate::pickle::{ListId, Value};

/// The kind of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Action {
    Alloc,
    /// The program has freed the block. Other streams may still use it.
    FreeRequested,
    /// The memory can be reused.
    FreeCompleted,
    SegmentAlloc,
    SegmentFree,
    Map,
    Unmap,
    OutOfMemory,
    Snapshot,
    /// Not used here.
    Other,
}

/// An entry of a trace.
#[derive(Clone, Copy, Debug)]
pub(super) struct Entry {
    pub action: Action,
    /// 0 if there is no address; for a failure, the free bytes of the card.
    pub address: u64,
    pub bytes: u64,
    /// The block's or the segment's stream; `None` if the snapshot has no streams.
    pub stream: Option<u64>,
    /// `None` if the snapshot has no pools.
    pub pool: Option<PoolId>,
    /// Microseconds since 1970-01-01 UTC; 0 where the snapshot has no times.
    pub time_us: u64,
    pub frames: Option<ListId>,
}

impl Entry {
    /// `None` if a field is missing.
    pub fn of(fields: &Fields<'_>, value: Value) -> Option<Self> {
        let Value::Dict(entry) = value else {
            return None;
        };
        let action = match fields.bytes(fields.text_of(entry, fields::ACTION)?) {
            b"alloc" => Action::Alloc,
            b"free_requested" => Action::FreeRequested,
            b"free_completed" | b"free" => Action::FreeCompleted,
            b"segment_alloc" => Action::SegmentAlloc,
            b"segment_free" => Action::SegmentFree,
            b"segment_map" => Action::Map,
            b"segment_unmap" => Action::Unmap,
            b"oom" => Action::OutOfMemory,
            b"snapshot" => Action::Snapshot,
            _ => Action::Other,
        };
        let address = fields.number(entry, fields::ADDR);
        let bytes = fields.number(entry, fields::SIZE);
        let (address, bytes) = match action {
            Action::OutOfMemory => {
                let free = fields.number(entry, fields::DEVICE_FREE);
                (free.unwrap_or(u64::MAX), bytes?)
            }
            Action::Snapshot | Action::Other => (0, 0),
            _ => (address?, bytes?),
        };
        Some(Self {
            action,
            address,
            bytes,
            stream: fields.number(entry, fields::STREAM),
            pool: fields.pool(entry, fields::POOL_ID),
            time_us: fields.number(entry, fields::TIME_US).unwrap_or(0),
            frames: fields.list(entry, fields::FRAMES),
        })
    }
}
