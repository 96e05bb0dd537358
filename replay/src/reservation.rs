//! Memory that grows and shrinks under one name: a pool, a context, the memory of graphs.

use gpumem_capture::EventFlags;

use crate::ids::KeyId;
use crate::serialize::{Serialize, serialize};

/// The kind of a reservation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ReservationKind {
    /// A context's memory, including its limits.
    Context,
    /// Kernels of a loaded module.
    Module,
    /// A stream-ordered memory pool.
    Pool,
    /// The memory of a device's graphs.
    Graphs,
    /// A kind that this analyzer does not know.
    Other,
    /// The streams of a context; the handle is the context's with the lowest bit set.
    Streams,
}

impl Serialize for ReservationKind {
    fn put(&self, to: &mut Vec<u8>) {
        to.push(*self as u8);
    }

    fn take(from: &mut &[u8]) -> Option<Self> {
        let kinds = [
            Self::Context,
            Self::Module,
            Self::Pool,
            Self::Graphs,
            Self::Other,
            Self::Streams,
        ];
        kinds.get(usize::take(from)?).copied()
    }
}

serialize! {
    Reservation { parts }
}

impl ReservationKind {
    /// The kind in an event's flags.
    pub fn of(flags: EventFlags) -> Self {
        [
            (STREAMS, Self::Streams),
            (EventFlags::CONTEXT, Self::Context),
            (EventFlags::MODULE, Self::Module),
            (EventFlags::STREAM_ORDERED, Self::Pool),
            (EventFlags::GRAPH, Self::Graphs),
        ]
        .into_iter()
        .find(|(flag, _)| flags.contains(*flag))
        .map_or(Self::Other, |(_, kind)| kind)
    }
}

/// Older analyzers treat it as another context.
const STREAMS: EventFlags = EventFlags::CONTEXT.with(EventFlags::STREAM_ORDERED);

/// A change of a part of a reservation; bytes are charged to the stack that made the reservation
/// grow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// A part was added.
    New(KeyId, u64),
    /// The newest part grew.
    More(KeyId, u64),
    /// The newest part shrank.
    Less(KeyId, u64),
    /// The newest part was removed.
    End(KeyId, u64),
}

/// A reservation: its growths, oldest first. A shrink removes from the newest growth first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reservation {
    parts: Vec<(KeyId, u64)>,
}

impl Reservation {
    /// Its size.
    pub fn bytes(&self) -> u64 {
        self.parts.iter().map(|(_, bytes)| bytes).sum()
    }

    /// Bytes by the stacks that made the reservation grow, oldest first.
    pub fn parts(&self) -> &[(KeyId, u64)] {
        &self.parts
    }

    /// Calls `change` for the stacks of its parts.
    pub(crate) fn each_key(&mut self, change: &mut dyn FnMut(&mut KeyId)) {
        for (key, _) in &mut self.parts {
            change(key);
        }
    }

    /// Sets its size to `bytes`; a growth is charged to `key`. `changed` receives each change.
    pub(crate) fn resize(&mut self, bytes: u64, key: KeyId, changed: &mut dyn FnMut(Change)) {
        let before = self.bytes();
        if let Some(grown) = bytes.checked_sub(before).filter(|grown| *grown > 0) {
            match self.parts.last_mut() {
                Some((newest, have)) if *newest == key => {
                    *have += grown;
                    changed(Change::More(key, grown));
                }
                _ => {
                    self.parts.push((key, grown));
                    changed(Change::New(key, grown));
                }
            }
        }
        let mut less = before.saturating_sub(bytes);
        while let Some((newest, have)) = self.parts.last_mut().filter(|_| less > 0) {
            let (newest, taken) = (*newest, less.min(*have));
            less -= taken;
            *have -= taken;
            if *have == 0 {
                self.parts.pop();
                changed(Change::End(newest, taken));
            } else {
                changed(Change::Less(newest, taken));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_it_shrinks_by_is_taken_from_the_newest_growth() {
        let (a, b) = (KeyId(1), KeyId(2));
        let mut reservation = Reservation::default();
        let mut seen = Vec::new();
        for (bytes, key) in [(10, a), (15, a), (25, b), (25, a), (12, b), (0, a)] {
            reservation.resize(bytes, key, &mut |change| seen.push(change));
            assert_eq!(reservation.bytes(), bytes);
        }
        assert_eq!(
            seen,
            [
                Change::New(a, 10),
                Change::More(a, 5),
                Change::New(b, 10),
                Change::End(b, 10),
                Change::Less(a, 3),
                Change::End(a, 12),
            ]
        );
    }

    #[test]
    fn the_flags_say_the_kind() {
        let estimated = EventFlags::ESTIMATED;
        for (flags, kind) in [
            (EventFlags::CONTEXT, ReservationKind::Context),
            (EventFlags::MODULE, ReservationKind::Module),
            (EventFlags::STREAM_ORDERED, ReservationKind::Pool),
            (EventFlags::GRAPH, ReservationKind::Graphs),
            (STREAMS, ReservationKind::Streams),
            (EventFlags::NONE, ReservationKind::Other),
        ] {
            assert_eq!(ReservationKind::of(flags.with(estimated)), kind);
        }
    }
}
