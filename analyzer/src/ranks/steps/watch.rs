//! Follows steps in the records of a capture.

use std::collections::BTreeMap;

use gpumem_capture::{DeviceOrdinal, EventKind, Level, Record};

use super::{Steps, Window};
use crate::replay::Replay;

/// A step with a larger number is invalid.
const STEPS: u64 = 1 << 32;

/// Some steps of a device, one by one.
#[derive(Debug)]
struct Kept {
    window: Window,
    first: u64,
    greatest: Vec<u64>,
}

/// Observes the records of a capture after the replay.
#[derive(Debug, Default)]
pub struct StepWatch {
    by_device: BTreeMap<DeviceOrdinal, (Steps, u64)>,
    ended: u64,
    /// Steps that are missing at the start of the capture.
    before: u64,
    device: DeviceOrdinal,
    kept: Vec<Kept>,
}

impl StepWatch {
    /// Also keeps some steps of a device, one by one.
    pub fn keeping(device: DeviceOrdinal, windows: &[Window]) -> Self {
        let kept = windows.iter().map(|window| Kept {
            window: *window,
            first: window.from,
            greatest: Vec::new(),
        });
        Self {
            device,
            kept: kept.collect(),
            ..Self::default()
        }
    }

    /// Observes a record after the replay has.
    pub fn observe(&mut self, replay: &Replay, record: &Record<'_>) {
        let Record::Event(_, event) = record else {
            return;
        };
        if event.kind == EventKind::ALLOC && event.level == Level::TENSOR {
            let live = replay.counters(event.device, Level::TENSOR).live;
            let (_, greatest) = self.by_device.entry(event.device).or_default();
            *greatest = live.max(*greatest);
        }
        if event.kind != EventKind::STEP {
            return;
        }
        // The number counts the earlier steps. A bounded capture may have evicted these and a part of this step.
        let before = event.aux.saturating_sub(1);
        let is_first = self.ended == 0;
        if is_first && (1..STEPS).contains(&before) {
            self.before = before + 1;
            self.ended = before + 1;
            for (device, (_, greatest)) in &mut self.by_device {
                *greatest = replay.counters(*device, Level::TENSOR).live;
            }
            return;
        }
        let mut held = 0;
        for (device, (steps, greatest)) in &mut self.by_device {
            if steps.ended == 0 {
                steps.skip(self.before);
            }
            // The device had no memory before.
            while steps.ended < self.ended {
                steps.end_step(0);
            }
            steps.end_step(*greatest);
            if *device == self.device {
                held = *greatest;
            }
            *greatest = replay.counters(*device, Level::TENSOR).live;
        }
        for kept in &mut self.kept {
            if (kept.window.from..kept.window.until).contains(&self.ended) {
                if kept.greatest.is_empty() {
                    kept.first = self.ended;
                }
                kept.greatest.push(held);
            }
        }
        self.ended = self.ended.saturating_add(1);
    }

    /// The steps of a device.
    pub fn of(&mut self, device: DeviceOrdinal) -> Steps {
        self.by_device.remove(&device).unwrap_or_default().0
    }

    /// The steps that had to be kept, as far as the capture has them, in the order of the windows.
    pub fn kept(self) -> Vec<Steps> {
        let kept = self.kept.into_iter();
        kept.map(|kept| Steps::each(kept.first, kept.greatest))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use gpumem_capture::{Event, Seq};

    use super::*;

    /// Feeds `steps` steps, the first with this number. Each keeps 1 byte more.
    fn watched(mut watch: StepWatch, first: u64, steps: u64) -> StepWatch {
        let mut replay = Replay::new(crate::replay::Query::default());
        let mut seq = 0;
        let mut feed = |event: Event| {
            seq += 1;
            let record = Record::Event(Seq(seq), &event);
            replay.feed(record);
            watch.observe(&replay, &record);
        };
        for step in first..first + steps {
            feed(Event {
                kind: EventKind::ALLOC,
                level: Level::TENSOR,
                device: DeviceOrdinal(0),
                ptr: step,
                bytes: 1,
                ..Event::default()
            });
            feed(Event {
                kind: EventKind::STEP,
                device: DeviceOrdinal::NONE,
                aux: step,
                ..Event::default()
            });
        }
        watch
    }

    #[test]
    fn steps_have_the_numbers_that_the_capture_gives_them() {
        let steps = watched(StepWatch::default(), 1, 3).of(DeviceOrdinal(0));
        assert_eq!(
            (steps.from, steps.ended, steps.greatest),
            (0, 3, vec![1, 2, 3])
        );
        // In a bounded capture that begins within step 21, this step is incomplete.
        let steps = watched(StepWatch::default(), 21, 3).of(DeviceOrdinal(0));
        assert_eq!(
            (steps.from, steps.ended, steps.greatest),
            (21, 23, vec![2, 3])
        );
    }

    #[test]
    fn some_steps_are_kept_each_for_itself() {
        let window = |from, until| Window { from, until };
        let windows = [window(0, 2), window(999, 1001), window(1999, 3000)];
        let watch = StepWatch::keeping(DeviceOrdinal(0), &windows);
        let kept = watched(watch, 1, 2000).kept();
        let expected = [(0, vec![1, 2]), (999, vec![1000, 1001]), (1999, vec![2000])];
        assert_eq!(kept, expected.map(|(from, of)| Steps::each(from, of)));
        let watch = StepWatch::keeping(DeviceOrdinal(0), &windows);
        let kept = watched(watch, 1000, 1).kept();
        assert_eq!(kept.iter().map(|of| of.greatest.len()).sum::<usize>(), 0);
    }
}
