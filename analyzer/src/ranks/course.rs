//! The memory of a rank over time, in buckets of wall time that all ranks share.

use std::collections::BTreeMap;

use gpumem_capture::{DeviceOrdinal, Record};
use schemars::JsonSchema;
use serde::Serialize;

use crate::replay::{Levels, Replay};

/// Memory of a rank that is followed over time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Part {
    /// Live bytes of tensors.
    Tensors,
    /// Bytes that PyTorch's allocator has reserved.
    Reserved,
    /// Physical memory of the process on the GPU. If it was not recorded: the driver level, or the reserved bytes if
    /// they are more.
    Process,
}

impl Part {
    /// All parts, in the order of figures.
    pub const ALL: [Self; 3] = [Self::Tensors, Self::Reserved, Self::Process];

    /// The label.
    pub fn word(self) -> &'static str {
        match self {
            Self::Tensors => "tensors",
            Self::Reserved => "PyTorch's allocator",
            Self::Process => "the process",
        }
    }
}

/// The figures of all parts, in their order.
pub type Parts = [u64; Part::ALL.len()];

/// How time is divided into buckets.
#[derive(Clone, Copy, Debug)]
pub struct Buckets {
    /// The unit of time, in nanoseconds.
    pub unit_ns: u64,
    /// The initial width of a bucket is 2 to the power of this, in units.
    pub narrowest: u32,
    /// The maximum number of buckets of each device.
    pub most: usize,
}

/// The maximum of the memory in each bucket of time.
///
/// The width of a bucket is a power of two of units, and its start since 1970 is a multiple of the width. So buckets
/// of two ranks are equal, or one contains the other.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Course {
    /// The width of a bucket is 2 to the power of this, in units.
    pub shift: u32,
    /// The start of the first bucket since 1970, in widths.
    pub first: u64,
    /// The maxima of each bucket.
    pub greatest: Vec<Parts>,
}

impl Course {
    /// Advances to a time, before which `held` was held, and adds what is held now.
    fn see(&mut self, at: u64, held: Parts, now: Parts, buckets: Buckets) {
        if self.greatest.is_empty() {
            self.shift = buckets.narrowest;
            self.first = at >> self.shift;
            self.greatest.push(now);
            return;
        }
        // A record of another thread may be slightly older than the newest one. It counts as that one.
        let mut past = self.past(at);
        while past >= buckets.most as u64 {
            self.widen();
            past = self.past(at);
        }
        while self.greatest.len() as u64 <= past {
            self.greatest.push(held);
        }
        if let Some(last) = self.greatest.last_mut() {
            join(last, now);
        }
    }

    /// The number of buckets between the first one and that of a time.
    fn past(&self, at: u64) -> u64 {
        (at >> self.shift).saturating_sub(self.first)
    }

    fn widen(&mut self) {
        let mut wide: Vec<Parts> = Vec::with_capacity(self.greatest.len() / 2 + 1);
        for (at, of) in (self.first..).zip(&self.greatest) {
            match wide.get_mut((at / 2 - self.first / 2) as usize) {
                Some(point) => join(point, *of),
                None => wide.push(*of),
            }
        }
        self.first /= 2;
        self.shift += 1;
        self.greatest = wide;
    }
}

/// The maximum of each part.
pub(super) fn join(of: &mut Parts, other: Parts) {
    for (of, other) in of.iter_mut().zip(other) {
        *of = other.max(*of);
    }
}

/// A followed device.
#[derive(Debug, Default)]
struct Followed {
    course: Course,
    held: Parts,
    /// Whether the physical level is known. An imported snapshot has only PyTorch's own figures.
    is_physical: bool,
}

impl Followed {
    fn see(&mut self, at: u64, now: &Levels, buckets: Buckets) {
        if now.physical > 0 && !self.is_physical {
            self.is_physical = true;
            let before = self.course.greatest.iter_mut().chain([&mut self.held]);
            before.for_each(|parts| parts[Part::Process as usize] = 0);
        }
        let reserved = now.reserved.unwrap_or(0);
        let process = match self.is_physical {
            true => now.physical,
            false => now.driver.max(reserved),
        };
        let now = [now.tensor, reserved, process];
        self.course.see(at, self.held, now, buckets);
        self.held = now;
    }
}

/// Observes the records of a capture after the replay.
#[derive(Debug)]
pub struct CourseWatch {
    started_unix_ns: u64,
    buckets: Buckets,
    devices: BTreeMap<DeviceOrdinal, Followed>,
}

impl CourseWatch {
    /// For a capture that was opened at this time.
    pub fn new(started_unix_ns: u64, buckets: Buckets) -> Self {
        Self {
            started_unix_ns,
            buckets,
            devices: BTreeMap::new(),
        }
    }

    /// Observes a record after the replay has.
    pub fn observe(&mut self, replay: &Replay, record: &Record<'_>) {
        match record {
            Record::Event(_, event) => self.see(replay, event.device, event.time.0),
            // The first record of a bounded capture.
            Record::State(..) => {
                for device in replay.devices.keys() {
                    self.see(replay, *device, replay.last.0);
                }
            }
            Record::Definition(..) => {}
        }
    }

    fn see(&mut self, replay: &Replay, device: DeviceOrdinal, after_ns: u64) {
        let on = replay.devices.get(&device);
        if let Some(on) = on.filter(|_| device != DeviceOrdinal::NONE) {
            let at = self.started_unix_ns.saturating_add(after_ns) / self.buckets.unit_ns;
            let of = self.devices.entry(device).or_default();
            of.see(at, &on.now, self.buckets);
        }
    }

    /// The course of each device so far.
    pub fn so_far(&self) -> impl Iterator<Item = (DeviceOrdinal, &Course)> {
        let devices = self.devices.iter();
        devices.map(|(device, of)| (*device, &of.course))
    }

    /// The course of each device up to this time.
    pub fn finish(self, end_unix_ns: u64) -> impl Iterator<Item = (DeviceOrdinal, Course)> {
        let buckets = self.buckets;
        self.devices.into_iter().map(move |(device, of)| {
            let (mut course, held) = (of.course, of.held);
            course.see(end_unix_ns / buckets.unit_ns, held, held, buckets);
            course.greatest.shrink_to_fit();
            (device, course)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NARROWEST: u32 = 16;
    const UNIT: u64 = 1 << NARROWEST;

    fn course(seen: &[(u64, u64)], most: usize) -> Course {
        let buckets = Buckets {
            unit_ns: 1,
            narrowest: NARROWEST,
            most,
        };
        let (mut course, mut held) = (Course::default(), [0; 3]);
        for (at, tensors) in seen {
            let now = [*tensors, 2 * tensors, 3 * tensors];
            course.see(at * UNIT, held, now, buckets);
            held = now;
        }
        course
    }

    fn tensors(course: &Course) -> Vec<u64> {
        course.greatest.iter().map(|[of, ..]| *of).collect()
    }

    #[test]
    fn buckets_where_nothing_happens_have_what_is_held() {
        let of = course(&[(10, 5), (10, 9), (10, 4), (13, 7), (12, 1)], 256);
        assert_eq!((of.first, of.shift), (10, NARROWEST));
        assert_eq!(tensors(&of), [9, 4, 4, 7]);
        assert_eq!(of.greatest[3], [7, 14, 21]);
    }

    #[test]
    fn long_runs_keep_few_buckets_and_their_greatest() {
        let seen: Vec<_> = (1001..3001).map(|at| (at, at % 97)).collect();
        let of = course(&seen, 256);
        assert!(of.greatest.len() <= 256 && of.greatest.len() > 128);
        for (index, value) in tensors(&of).into_iter().enumerate() {
            let width = 1 << (of.shift - NARROWEST);
            let from = (of.first + index as u64) * width;
            // The memory at the start of the bucket counts, too.
            let within = seen
                .iter()
                .filter(|(at, _)| (from..from + width).contains(at));
            let most = within.map(|(_, value)| *value).max().unwrap();
            let before = seen.iter().rev().find(|(at, _)| *at < from);
            assert_eq!(value, most.max(before.map_or(0, |(_, value)| *value)));
        }
    }

    #[test]
    fn buckets_of_two_ranks_align() {
        let (long, short) = (
            course(&[(7, 1), (9007, 1)], 64),
            course(&[(4000, 1), (4100, 1)], 64),
        );
        assert!(long.shift > short.shift);
        let at = |course: &Course| (course.first << course.shift, course.shift);
        let (begin, shift) = at(&long);
        assert!(begin <= 7 * UNIT && begin + (1 << shift) > 7 * UNIT);
        assert_eq!(begin % (1 << shift), 0);
        assert_eq!(at(&short).0 % (1 << short.shift), 0);
    }

    #[test]
    fn a_pause_of_years_is_followed() {
        let of = course(&[(1, 3), (1 << 40, 5)], 256);
        assert!(of.greatest.len() <= 256);
        assert_eq!(of.greatest.first(), Some(&[3, 6, 9]));
        assert_eq!(of.greatest.last(), Some(&[5, 10, 15]));
    }

    #[test]
    fn what_was_asked_for_counts_only_where_what_the_card_gave_is_never_known() {
        let buckets = Buckets {
            unit_ns: 1,
            narrowest: 0,
            most: 64,
        };
        let seen = |physical: [u64; 4]| {
            let mut of = Followed::default();
            for (at, physical) in (0..).zip(physical) {
                let now = Levels {
                    driver: 5,
                    physical,
                    ..Levels::default()
                };
                of.see(at, &now, buckets);
            }
            Vec::from_iter(of.course.greatest.iter().map(|[.., process]| *process))
        };
        assert_eq!(seen([0, 0, 0, 0]), [5, 5, 5, 5]);
        // The memory at the start of a bucket counts, too.
        assert_eq!(seen([0, 7, 0, 0]), [0, 7, 7, 0]);
    }
}
