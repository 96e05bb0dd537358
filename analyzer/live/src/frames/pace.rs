//! The speed of steps.

use std::collections::VecDeque;

use gpumem_capture::{EventKind, Nanos, Record};

/// The number of newest steps that count.
const STEPS: usize = 10;

/// The newest steps that ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pace {
    /// Their number.
    pub steps: u64,
    /// Their total duration.
    pub took: Nanos,
}

impl Pace {
    /// Steps per second; `None` if they took no time.
    pub fn per_second(self) -> Option<f64> {
        (self.took.0 > 0).then(|| self.steps as f64 * 1e9 / self.took.0 as f64)
    }
}

/// The times at which the newest steps ended.
#[derive(Debug, Default)]
pub(crate) struct StepEnds {
    /// The number and time of each.
    ends: VecDeque<(u64, Nanos)>,
}

impl StepEnds {
    pub(crate) fn observe(&mut self, record: &Record<'_>) {
        let Record::Event(_, event) = record else {
            return;
        };
        if event.kind != EventKind::STEP {
            return;
        }
        let last = self.ends.back().map_or(0, |(number, _)| *number);
        let number = last.saturating_add(1).max(event.aux);
        self.ends.push_back((number, event.time));
        if self.ends.len() > STEPS + 1 {
            self.ends.pop_front();
        }
    }

    pub(crate) fn pace(&self) -> Option<Pace> {
        let ((first, from), (last, to)) = (self.ends.front()?, self.ends.back()?);
        let steps = last - first;
        (steps > 0).then(|| Pace {
            steps,
            took: Nanos(to.0.saturating_sub(from.0)),
        })
    }
}

#[cfg(test)]
mod tests {
    use gpumem_capture::{Event, Seq};

    use super::*;

    #[test]
    fn only_the_newest_steps_count() {
        let mut ends = StepEnds::default();
        let mut step = |seconds: u64| {
            let event = Event {
                kind: EventKind::STEP,
                time: Nanos(seconds * 1_000_000_000),
                ..Event::default()
            };
            ends.observe(&Record::Event(Seq(seconds), &event));
            ends.pace()
        };
        assert_eq!(step(100), None);
        assert_eq!(step(200).and_then(Pace::per_second), Some(0.01));
        let paces: Vec<_> = (201..=210).map(&mut step).collect();
        let last = paces[9].expect("steps ended");
        assert_eq!((last.steps, last.per_second()), (10, Some(1.0)));
    }
}
