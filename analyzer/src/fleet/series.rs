//! The course of memory, and its greatest figures by step.

use std::mem;

use gpumem_capture::{DeviceOrdinal, Event};
use gpumem_dataset::{Key, SeriesPoint, Step};

use super::cells::int;
use crate::ranks::{StepWatch, Steps};
use crate::replay::{Levels, Replay};

/// Stretches that are kept of a capture at most.
const MOST: u64 = 64;

/// One figure's course: the greatest in each stretch of time. Stretches begin at multiples of their length.
#[derive(Clone, Debug, Default)]
struct Course {
    /// The length of a stretch: this power of two, in microseconds.
    shift: u32,
    /// Which stretch is the first.
    first: u64,
    greatest: Vec<u64>,
    now: u64,
    /// When the last stretch ends.
    ends: u64,
}

impl Course {
    /// The figure changes at a time.
    fn set(&mut self, us: u64, figure: u64) {
        if figure != self.now || self.greatest.is_empty() {
            self.go_to(us, figure);
            self.now = figure;
        }
    }

    /// A figure at a time; what it was until then goes on up to there.
    fn go_to(&mut self, us: u64, figure: u64) {
        // What happened at an earlier time by a clock that went back counts in the last stretch.
        if us < self.ends
            && let Some(last) = self.greatest.last_mut()
        {
            *last = figure.max(*last);
            return;
        }
        if self.greatest.is_empty() {
            self.first = us >> self.shift;
        }
        while (us >> self.shift) - self.first >= MOST {
            self.widen();
        }
        let stretch = us >> self.shift;
        let at = (stretch - self.first) as usize;
        if at >= self.greatest.len() {
            self.greatest.resize(at + 1, self.now);
        }
        if let Some(last) = self.greatest.last_mut() {
            *last = figure.max(*last);
        }
        self.ends = (stretch + 1) << self.shift;
    }

    fn widen(&mut self) {
        let had = mem::take(&mut self.greatest);
        let (first, from) = (self.first >> 1, self.first);
        for (at, figure) in (from..).zip(had) {
            let to = ((at >> 1) - first) as usize;
            match self.greatest.get_mut(to) {
                Some(of) => *of = figure.max(*of),
                None => self.greatest.push(figure),
            }
        }
        self.first = first;
        self.shift += 1;
    }

    fn most(&self) -> u64 {
        self.greatest.iter().copied().max().unwrap_or(0)
    }
}

/// The courses of a device.
#[derive(Clone, Debug, Default)]
struct Courses {
    tensor: Course,
    reserved: Course,
    /// What the card gave; and what was asked for, where that is not known.
    physical: Course,
    asked: Course,
}

impl Courses {
    fn set(&mut self, us: u64, now: &Levels) {
        let reserved = now.reserved.unwrap_or(0);
        self.tensor.set(us, now.tensor);
        self.reserved.set(us, reserved);
        self.physical.set(us, now.physical);
        self.asked.set(us, now.driver.max(reserved));
    }

    /// By level, as the table has them.
    fn into_levels(self) -> [(&'static str, Course); 3] {
        let process = match self.physical.most() {
            0 => self.asked,
            _ => self.physical,
        };
        [
            ("tensor", self.tensor),
            ("reserved", self.reserved),
            ("process", process),
        ]
    }
}

/// Follows the events of a capture beside the replay.
#[derive(Debug, Default)]
pub(super) struct SeriesWatch {
    /// By the device's number.
    by_device: Vec<Courses>,
    started_us: u64,
}

impl SeriesWatch {
    /// Of a capture that was opened then.
    pub fn new(started_unix_ns: u64) -> Self {
        Self {
            started_us: started_unix_ns / 1000,
            ..Self::default()
        }
    }

    /// Takes in an event after the replay has.
    pub fn observe(&mut self, replay: &Replay, event: &Event) {
        if event.device == DeviceOrdinal::NONE {
            return;
        }
        if let Some(on) = replay.devices.get(&event.device) {
            let us = self.started_us + event.time.0 / 1000;
            let at = usize::from(event.device.0);
            if at >= self.by_device.len() {
                self.by_device.resize(at + 1, Courses::default());
            }
            if let Some(courses) = self.by_device.get_mut(at) {
                courses.set(us, &on.now);
            }
        }
    }

    /// The rows, up to the last event, with stretches of one length for all.
    pub fn rows(self, capture: Key, replay: &Replay) -> Vec<SeriesPoint> {
        let end = self.started_us + replay.last.0 / 1000;
        let mut all = Vec::new();
        for (device, courses) in (0..).zip(self.by_device) {
            for (level, mut course) in courses.into_levels() {
                if course.most() > 0 {
                    course.go_to(end, course.now);
                    all.push((device, level, course));
                }
            }
        }
        let shift = all.iter().map(|(_, _, course)| course.shift).max();
        let shift = shift.unwrap_or(0);
        let mut rows = Vec::new();
        for (device, level, mut course) in all {
            while course.shift < shift {
                course.widen();
            }
            let points = (course.first..).zip(&course.greatest);
            rows.extend(points.map(|(at, bytes)| SeriesPoint {
                capture,
                device,
                level: level.into(),
                time: int(at << shift),
                width_us: 1 << shift,
                bytes: int(*bytes),
            }));
        }
        rows
    }
}

/// The greatest memory of tensors in each step, of all devices. Of a bounded capture from the first step on that is whole
/// among its records.
pub(super) fn steps(capture: Key, replay: &Replay, mut watch: StepWatch) -> Vec<Step> {
    let devices = replay.devices.keys();
    devices
        .flat_map(|device| rows(capture, device.0.into(), &watch.of(*device)))
        .collect()
}

fn rows(capture: Key, device: i64, of: &Steps) -> Vec<Step> {
    let points = (0..).zip(&of.greatest);
    points
        .map(|(at, bytes): (u64, &u64)| {
            let first = of.from + at * of.width;
            Step {
                capture,
                device,
                first_step: int(first + 1),
                steps: int(of.width.min(of.ended - first)),
                bytes: int(*bytes),
            }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn course(figures: &[(u64, u64)]) -> Course {
        let mut course = Course::default();
        figures
            .iter()
            .for_each(|(us, figure)| course.set(*us, *figure));
        course
    }

    #[test]
    fn what_was_goes_on_until_it_changes() {
        let of = course(&[(100, 5), (103, 9), (104, 2), (107, 2), (108, 3)]);
        assert_eq!((of.shift, of.first), (0, 100));
        assert_eq!(of.greatest, [5, 5, 5, 9, 9, 2, 2, 2, 3]);
    }

    #[test]
    fn stretches_begin_at_multiples_of_their_length_and_keep_the_greatest() {
        let figures: Vec<(u64, u64)> = (0..1000)
            .map(|n| (1_000_001 + n * 7, n * 31 % 977))
            .collect();
        let of = course(&figures);
        assert!(of.greatest.len() as u64 <= MOST && of.greatest.len() as u64 > MOST / 2);
        for (at, greatest) in (of.first..).zip(&of.greatest) {
            let within = figures.iter().filter(|(us, _)| us >> of.shift == at);
            let before = figures.iter().rfind(|(us, _)| us >> of.shift < at);
            let all = within.chain(before).map(|(_, figure)| figure);
            assert_eq!(all.max(), Some(greatest), "stretch {at}");
        }
    }

    #[test]
    fn steps_are_numbered_from_the_first_that_is_known() {
        let of = Steps {
            width: 4,
            from: 12,
            greatest: vec![7, 9],
            ended: 18,
        };
        let rows = rows(Key(1), 0, &of);
        let told: Vec<_> = rows
            .iter()
            .map(|row| (row.first_step, row.steps, row.bytes))
            .collect();
        assert_eq!(told, [(13, 4, 7), (17, 2, 9)]);
    }

    #[test]
    fn a_clock_that_goes_back_loses_nothing() {
        let of = course(&[(1000, 5), (990, 9), (1001, 1)]);
        assert_eq!((of.first, of.greatest), (1000, vec![9, 9]));
    }
}
