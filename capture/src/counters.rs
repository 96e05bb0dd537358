//! Exact figures for each device and level, kept in the file's head.

use crate::{Event, EventFlags, EventKind};

/// The figures of one (device, level).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct CounterValues {
    /// Live bytes.
    pub live: u64,
    /// The highest `live` so far.
    pub peak: u64,
    /// Allocations so far.
    pub allocations: u64,
    /// Frees so far.
    pub frees: u64,
    /// Bytes of all allocations so far.
    pub allocated_bytes: u64,
}

impl CounterValues {
    /// Applies an event's effect and returns whether it has one. The writer and every replay use this
    /// function, so that they can only differ where events differ.
    ///
    /// - ALLOC: `live` and `allocated_bytes` grow by the event's bytes, `allocations` by 1.
    /// - FREE of a known pointer: `live` falls by the event's bytes (never below 0), `frees` grows by 1.
    /// - CANCEL: the free did not happen: `live` grows again, `frees` falls by 1.
    /// - RESIZE: `live` changes by the event's `bytes` less its `aux`; a growth counts as allocated
    ///   bytes, the first one as an allocation, the end as a free.
    /// - `peak` follows `live` up in all cases.
    #[inline]
    pub fn apply(&mut self, event: &Event) -> bool {
        match event.kind {
            EventKind::ALLOC => self.allocate(event.bytes),
            EventKind::FREE if !event.flags.contains(EventFlags::UNKNOWN_POINTER) => {
                self.free(event.bytes);
            }
            EventKind::CANCEL => {
                self.live = self.live.wrapping_add(event.bytes);
                self.frees = self.frees.saturating_sub(1);
            }
            EventKind::RESIZE if event.bytes != event.aux => {
                let grown = event.bytes.saturating_sub(event.aux);
                self.live = self.live.wrapping_add(grown);
                self.live = self
                    .live
                    .saturating_sub(event.aux.saturating_sub(event.bytes));
                self.allocated_bytes = self.allocated_bytes.wrapping_add(grown);
                self.allocations = self.allocations.wrapping_add(u64::from(event.aux == 0));
                self.frees = self.frees.wrapping_add(u64::from(event.bytes == 0));
            }
            _ => return false,
        }
        self.peak = self.peak.max(self.live);
        true
    }

    /// Adds an allocation of this many bytes.
    #[inline(always)]
    pub(crate) fn allocate(&mut self, bytes: u64) {
        self.live = self.live.wrapping_add(bytes);
        self.allocated_bytes = self.allocated_bytes.wrapping_add(bytes);
        self.allocations = self.allocations.wrapping_add(1);
        self.peak = self.peak.max(self.live);
    }

    /// Adds a free of this many bytes.
    #[inline(always)]
    pub(crate) fn free(&mut self, bytes: u64) {
        self.live = self.live.saturating_sub(bytes);
        self.frees = self.frees.wrapping_add(1);
    }

    /// Whether [`CounterValues::apply`] would change anything.
    #[inline]
    pub fn counts(event: &Event) -> bool {
        match event.kind {
            EventKind::ALLOC | EventKind::CANCEL => true,
            EventKind::FREE => !event.flags.contains(EventFlags::UNKNOWN_POINTER),
            EventKind::RESIZE => event.bytes != event.aux,
            _ => false,
        }
    }

    /// The figures in the order of a row.
    pub(crate) fn words(&self) -> [u64; 5] {
        let Self {
            live,
            peak,
            allocations,
            frees,
            allocated_bytes,
        } = *self;
        [live, peak, allocations, frees, allocated_bytes]
    }

    /// Whether nothing was ever counted.
    pub fn is_zero(&self) -> bool {
        *self == Self::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(kind: EventKind, bytes: u64) -> Event {
        Event {
            kind,
            bytes,
            ..Event::default()
        }
    }

    #[test]
    fn a_cancelled_free_raises_the_peak_to_what_was_really_live() {
        let mut values = CounterValues::default();
        values.apply(&event(EventKind::ALLOC, 10));
        values.apply(&event(EventKind::FREE, 10));
        values.apply(&event(EventKind::ALLOC, 10));
        values.apply(&event(EventKind::CANCEL, 10));
        let expected = CounterValues {
            live: 20,
            peak: 20,
            allocations: 2,
            frees: 0,
            allocated_bytes: 20,
        };
        assert_eq!(values, expected);
    }

    #[test]
    fn a_reservation_counts_by_its_change() {
        let resize = |bytes, aux| Event {
            aux,
            ..event(EventKind::RESIZE, bytes)
        };
        let mut values = CounterValues::default();
        for (bytes, aux) in [(30, 0), (50, 30), (20, 50), (0, 20)] {
            assert!(CounterValues::counts(&resize(bytes, aux)));
            assert!(values.apply(&resize(bytes, aux)));
            assert_eq!(values.live, bytes);
        }
        let expected = CounterValues {
            live: 0,
            peak: 50,
            allocations: 1,
            frees: 1,
            allocated_bytes: 50,
        };
        assert_eq!(values, expected);
        assert!(!CounterValues::counts(&resize(7, 7)));
        assert!(!values.apply(&resize(7, 7)));
    }

    #[test]
    fn only_what_counts_is_applied() {
        let unknown = Event {
            flags: EventFlags::UNKNOWN_POINTER,
            ..event(EventKind::FREE, 5)
        };
        for event in [unknown, event(EventKind::MAP, 5), event(EventKind(200), 5)] {
            let mut values = CounterValues::default();
            assert!(!values.apply(&event));
            assert!(!CounterValues::counts(&event));
            assert!(values.is_zero());
        }
        assert!(CounterValues::counts(&event(EventKind::ALLOC, 0)));
    }
}
