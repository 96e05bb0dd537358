//! Events that no machine can have recorded. Sums of the others fit in 64 bits.

use gpumem_capture::{Event, EventKind, Record};

use crate::account::many;
use crate::replay::Replay;

/// Smaller events are not looked at: 2^30 live blocks of this size would be needed to exceed 64 bits.
const LARGE: u64 = 1 << 34;
/// The largest block: a pebibyte.
const BLOCK: u64 = 1 << 50;
/// The most live bytes of a level of a device.
const LIVE: u64 = 1 << 56;
/// The most bytes of all large blocks of a capture.
const ALL: u64 = 1 << 62;

/// Whether the event's bytes are part of a sum. Others have readings, where the largest number stands
/// for an unknown one.
fn is_summed(event: &Event) -> bool {
    let kinds = [
        EventKind::ALLOC,
        EventKind::FREE,
        EventKind::CANCEL,
        EventKind::MAP,
        EventKind::UNMAP,
        EventKind::RESIZE,
    ];
    kinds.contains(&event.kind)
}

/// Separates plausible events from others.
#[derive(Debug, Default)]
pub(crate) struct Plausible {
    all: u64,
    refused: u64,
}

impl Plausible {
    /// Whether a record may be applied.
    #[inline]
    pub(crate) fn allows(&mut self, replay: &Replay, record: &Record<'_>) -> bool {
        match record {
            Record::Event(_, event) if event.bytes > LARGE && is_summed(event) => {
                self.allows_large(replay, event)
            }
            _ => true,
        }
    }

    #[cold]
    fn allows_large(&mut self, replay: &Replay, event: &Event) -> bool {
        let live = replay.counters(event.device, event.level).live;
        let all = self.all.saturating_add(event.bytes);
        let is_plausible =
            event.bytes <= BLOCK && live.saturating_add(event.bytes) <= LIVE && all <= ALL;
        match is_plausible {
            true => self.all = all,
            false => self.refused += 1,
        }
        is_plausible
    }

    /// What is missing because of them.
    pub(crate) fn missing(&self) -> Option<String> {
        let events = many(
            self.refused,
            "event with more bytes than a machine can have was not counted",
            "events with more bytes than a machine can have were not counted",
        );
        (self.refused > 0).then_some(events)
    }
}
