//! When other streams were through with the blocks that they used.
//!
//! A block that was used on other streams goes back to the pool once each of them is through with it. The capture says
//! when it went back (RELEASED). A stream's events are looked at in order and one that is not ready holds up those
//! behind it; so the stream was through with a block no later than with any that was freed after it.

use gpumem_capture::{AllocatorCall, Event, EventKind};
use rustc_hash::{FxHashMap, FxHashSet};

use crate::steps::Placements;

/// For a release and a stream the seq from which the stream is through.
#[derive(Debug, Default)]
pub(crate) struct Ready(FxHashMap<(u64, u64), u64>);

impl Ready {
    /// 0: from the first look on.
    pub(crate) fn of(&self, free: u64, stream: u64) -> u64 {
        self.0.get(&(free, stream)).copied().unwrap_or(0)
    }
}

/// Gathers releases that waited, in one pass over a capture.
#[derive(Debug, Default)]
pub(crate) struct Late {
    /// The stream of each live block that is not of the default one.
    own: FxHashMap<u64, u64>,
    /// Streams that a live block was used on besides its own.
    uses: FxHashMap<u64, FxHashSet<u64>>,
    waiting: FxHashMap<u64, usize>,
    /// In order: seq of the release, its streams, seq at which the block went back.
    releases: Vec<(u64, Vec<u64>, u64)>,
}

impl Late {
    /// An event of the tensor level.
    pub(crate) fn see(&mut self, seq: u64, event: &Event, placements: &Placements) {
        match event.kind {
            EventKind::ALLOC => {
                let stream = placements.of(event.placement).stream;
                match stream {
                    0 => self.own.remove(&event.ptr),
                    _ => self.own.insert(event.ptr, stream),
                };
            }
            EventKind::FREE => {
                if let Some(streams) = self.uses.remove(&event.ptr) {
                    self.waiting.insert(event.ptr, self.releases.len());
                    let streams = streams.into_iter().collect();
                    // A block of which nothing more is heard never went back.
                    self.releases.push((seq, streams, u64::MAX));
                }
            }
            EventKind::ALLOCATOR if event.aux == AllocatorCall::RECORD_STREAM.0 => {
                let stream = placements.of(event.placement).stream;
                // A use on its own stream is none.
                if self.own.get(&event.ptr).copied().unwrap_or(0) != stream {
                    self.uses.entry(event.ptr).or_default().insert(stream);
                }
            }
            EventKind::ALLOCATOR if event.aux == AllocatorCall::RELEASED.0 => {
                if let Some(place) = self.waiting.remove(&event.ptr)
                    && let Some(release) = self.releases.get_mut(place)
                {
                    release.2 = seq;
                }
            }
            _ => {}
        }
    }

    /// `now` gives a stream's handle in this process.
    pub(crate) fn ready(self, now: impl Fn(u64) -> u64) -> Ready {
        let mut earliest = FxHashMap::default();
        let mut ready = FxHashMap::default();
        for (free, streams, released) in self.releases.into_iter().rev() {
            for stream in streams {
                let first = earliest.entry(stream).or_insert(u64::MAX);
                *first = released.min(*first);
                ready.insert((free, now(stream)), *first);
            }
        }
        Ready(ready)
    }
}
