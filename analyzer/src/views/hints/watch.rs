//! The course of a run for hints: memory that PyTorch's pool freed and allocated again, growth, and frees.

use std::collections::BTreeMap;

use gpumem_capture::{DeviceOrdinal, EventKind, Level, Record};
use gpumem_judge::LoopRounds;

use super::frees::Frees;
use super::growing::Growing;
use super::hint::{Hint, HintKind, NOTABLE, is_notable};
use crate::account::many;
use crate::replay::{Effect, Replay};

/// Follows a capture for its hints.
#[derive(Debug, Default)]
pub struct HintWatch {
    /// Reserved bytes, which are in each of PyTorch's events.
    devices: BTreeMap<DeviceOrdinal, Seen>,
    pub(super) growing: Growing,
    pub(super) frees: Frees,
}

#[derive(Clone, Copy, Debug, Default)]
struct Seen {
    reserved: u64,
    peak: u64,
    /// How often they decreased.
    times: u64,
    given_back: u64,
    /// The part that it has not allocated again.
    owed: u64,
    taken_again: u64,
}

/// A program that empties the pool less often does not do it in a loop.
const OFTEN: u64 = 3;

impl HintWatch {
    /// Observes a record after the replay has.
    pub fn observe(&mut self, replay: &Replay, record: Record<'_>, effect: Effect) {
        self.growing.observe(replay, record, effect);
        let Record::Event(seq, event) = record else {
            return;
        };
        match event.kind {
            EventKind::PHASE_BEGIN => self.frees.mark(seq, event),
            EventKind::OUT_OF_MEMORY => self.frees.failed(),
            _ => {}
        }
        if event.level != Level::TENSOR || !matches!(event.kind, EventKind::ALLOC | EventKind::FREE)
        {
            return;
        }
        let seen = self.devices.entry(event.device).or_default();
        if event.aux != seen.reserved {
            seen.change(event.aux);
        }
        match effect {
            Effect::Live(_) => self.frees.came(event.device),
            Effect::Gone(block) => self.frees.went(replay, seq, event.device, block),
            Effect::None => {}
        }
    }

    /// The loop whose rounds count, if no steps do.
    pub fn rounds(&self, replay: &Replay) -> Option<LoopRounds> {
        self.growing.rounds(replay)
    }

    /// Ends open runs after all records.
    pub fn finish(&mut self) {
        self.frees.finish();
    }

    /// The hint for a device, if the memory that was allocated again is large enough.
    pub(super) fn hint(&self, device: DeviceOrdinal) -> Option<Hint> {
        let seen = self.devices.get(&device)?;
        if seen.times < OFTEN || !is_notable(seen.taken_again, seen.peak, NOTABLE) {
            return None;
        }
        let bytes = crate::units::bytes;
        Some(Hint {
            kind: HintKind::CacheEmptied,
            device: device.0,
            bytes: seen.taken_again,
            what: format!(
                "PyTorch's pool freed its unallocated memory {}, {} in total, and allocated {} of it again",
                many(seen.times, "time", "times"),
                bytes(seen.given_back),
                bytes(seen.taken_again)
            ),
            advice: "torch.cuda.empty_cache() in a loop costs a synchronization and driver calls, and frees no memory for this process; if PyTorch emptied its pool itself, it had run out of memory"
                .into(),
            lines: Vec::new(),
            holder: None,
        })
    }
}

impl Seen {
    fn change(&mut self, reserved: u64) {
        if let Some(less) = self.reserved.checked_sub(reserved) {
            self.times += 1;
            self.given_back = self.given_back.saturating_add(less);
            self.owed = self.owed.saturating_add(less);
        } else {
            let again = (reserved - self.reserved).min(self.owed);
            self.taken_again = self.taken_again.saturating_add(again);
            self.owed -= again;
        }
        self.reserved = reserved;
        self.peak = self.peak.max(reserved);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(course: &[u64]) -> Seen {
        let mut seen = Seen::default();
        for reserved in course {
            seen.change(*reserved);
        }
        seen
    }

    #[test]
    fn only_what_was_given_back_before_is_taken_again() {
        let growing = seen(&[10, 20, 40]);
        assert_eq!((growing.times, growing.taken_again), (0, 0));
        let emptied_at_the_end = seen(&[40, 0]);
        assert_eq!(
            (emptied_at_the_end.times, emptied_at_the_end.taken_again),
            (1, 0)
        );
        let again_and_more = seen(&[40, 10, 60, 10, 20]);
        assert_eq!(again_and_more.times, 2);
        assert_eq!(again_and_more.given_back, 30 + 50);
        assert_eq!(again_and_more.taken_again, 30 + 10);
        assert_eq!(again_and_more.peak, 60);
    }
}
