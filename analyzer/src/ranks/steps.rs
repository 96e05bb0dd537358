//! What a rank held in each step of its training.

use std::collections::BTreeMap;

use gpumem_capture::{DeviceOrdinal, EventKind, Level, Record};
use serde::Serialize;

use super::robust::Spread;
use crate::replay::Replay;

/// Points that are kept of a run; longer ones have several steps in each.
const MOST: usize = 256;

/// The greatest memory of tensors in each step.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Steps {
    /// Steps in each point: a power of two.
    pub width: u64,
    /// The greatest of each point's steps; the last may lack some of its steps.
    pub greatest: Vec<u64>,
    /// Steps that ended.
    pub ended: u64,
}

impl Steps {
    fn end_step(&mut self, greatest: u64) {
        self.width = self.width.max(1);
        if self.ended / self.width >= MOST as u64 {
            self.widen();
        }
        let at = (self.ended / self.width) as usize;
        match self.greatest.get_mut(at) {
            Some(point) => *point = greatest.max(*point),
            None => self.greatest.push(greatest),
        }
        self.ended += 1;
    }

    fn widen(&mut self) {
        self.width *= 2;
        let pairs = self.greatest.chunks(2);
        self.greatest = pairs
            .filter_map(|pair| pair.iter().max().copied())
            .collect();
    }

    /// The greatest of the steps from `first` (counted from 0) up to `first + width`, if all of them ended and `width` is
    /// this one's or larger.
    fn over(&self, first: u64, width: u64) -> Option<u64> {
        let within = first.checked_add(width)? <= self.ended
            && self.width > 0
            && width.is_multiple_of(self.width);
        let points = within
            .then(|| (first / self.width) as usize..((first + width) / self.width) as usize)?;
        self.greatest.get(points)?.iter().max().copied()
    }
}

/// The first step of those from which on a rank differed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Since {
    /// It is no earlier step, counted from 1.
    pub first_step: u64,
    /// And no later one.
    pub last_step: u64,
}

/// Since when one of these ranks differs from all of them, in the direction of `by`. It must come to differ by more than
/// `least`; it began where it first was farther off than they scatter.
pub fn since(of: &Steps, peers: &[&Steps], by: i64, least: u64) -> Option<Since> {
    let width = peers.iter().map(|steps| steps.width).max()?.max(of.width);
    let mut began = None;
    for first in (0..of.ended).step_by(usize::try_from(width).ok().filter(|width| *width > 0)?) {
        let mut figures: Vec<i64> = peers
            .iter()
            .filter_map(|steps| Some(steps.over(first, width)? as i64))
            .collect();
        let own = of.over(first, width)? as i64;
        let spread = Spread::of(&mut figures, 0).filter(|_| figures.len() > 1)?;
        let off = spread.off(own).filter(|off| off.signum() == by.signum());
        began = off.and(began.or(Some(first)));
        if let (Some(began), Some(off)) = (began, off)
            && off.unsigned_abs() > least
        {
            return Some(Since {
                first_step: began + 1,
                last_step: began + width,
            });
        }
    }
    None
}

/// Follows the records of a capture beside the replay.
#[derive(Debug, Default)]
pub struct StepWatch {
    by_device: BTreeMap<DeviceOrdinal, (Steps, u64)>,
    ended: u64,
}

impl StepWatch {
    /// Takes in a record after the replay has.
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
        for (device, (steps, greatest)) in &mut self.by_device {
            // Of a device that had nothing before, and of a bounded capture, which no longer has its first steps.
            while steps.ended < self.ended {
                steps.end_step(0);
            }
            steps.end_step(*greatest);
            *greatest = replay.counters(*device, Level::TENSOR).live;
        }
        self.ended = self.ended.saturating_add(1);
    }

    /// What was seen of a device.
    pub fn of(&mut self, device: DeviceOrdinal) -> Steps {
        self.by_device.remove(&device).unwrap_or_default().0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn steps(greatest: impl IntoIterator<Item = u64>) -> Steps {
        let mut steps = Steps::default();
        greatest.into_iter().for_each(|of| steps.end_step(of << 20));
        steps
    }

    #[test]
    fn the_step_is_named_at_which_a_leak_began() {
        let even = steps([100; 60]);
        let leak = steps((1..=60u64).map(|step| 100 + step.saturating_sub(39)));
        let peers = [&even, &leak, &even, &even];
        let found = since(&leak, &peers, 1, 2 << 20);
        assert_eq!(
            found,
            Some(Since {
                first_step: 40,
                last_step: 40
            })
        );
        assert_eq!(since(&even, &peers, 1, 2 << 20), None);
        assert_eq!(since(&leak, &peers, -1, 2 << 20), None);
    }

    #[test]
    fn long_runs_keep_few_points_and_name_the_steps_between_which_it_began() {
        let even = steps([100; 1000]);
        let other = steps((0..1000).map(|step| if step < 500 { 100 } else { 200 }));
        assert_eq!(
            (even.width, even.greatest.len(), even.ended),
            (4, 250, 1000)
        );
        let found = since(&other, &[&even, &even, &other], 1, 2 << 20);
        assert_eq!(
            found,
            Some(Since {
                first_step: 501,
                last_step: 504
            })
        );
    }

    #[test]
    fn runs_of_other_lengths_are_compared_where_both_have_steps() {
        let (long, short) = (steps([100; 1000]), steps([150; 10]));
        let found = since(&short, &[&long, &long, &short], 1, 2 << 20);
        assert_eq!(
            found,
            Some(Since {
                first_step: 1,
                last_step: 4
            })
        );
        assert_eq!(since(&steps([]), &[&long], 1, 2 << 20), None);
    }
}
