//! What a rank held over time, in buckets of wall-clock time that are those of all ranks.

use gpumem_capture::DeviceOrdinal;
use serde::Serialize;

use crate::replay::{Levels, Replay};

/// What is followed over time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Part {
    /// Tensors.
    Tensors,
    /// What PyTorch's allocator holds.
    Reserved,
    /// All that the process holds on the device.
    Process,
}

impl Part {
    /// All, in the order in which figures stand.
    pub const ALL: [Self; 3] = [Self::Tensors, Self::Reserved, Self::Process];

    /// As people read it.
    pub fn word(self) -> &'static str {
        match self {
            Self::Tensors => "tensors",
            Self::Reserved => "PyTorch's allocator",
            Self::Process => "the process",
        }
    }
}

/// Figures of all parts, in their order.
pub type Parts = [u64; Part::ALL.len()];

/// The first width of a bucket is 2 to this, in nanoseconds.
const NARROWEST: u32 = 16;

/// The greatest memory in each bucket of time.
///
/// A bucket is a power of two of nanoseconds wide, and begins at a multiple of that since 1970: those of two ranks are
/// the same, or one is a whole part of the other.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Course {
    /// A bucket is 2 to this wide.
    pub shift: u32,
    /// The first bucket's begin, in such widths since 1970.
    pub first: u64,
    /// The greatest of each bucket, one after the other.
    pub greatest: Vec<Parts>,
}

impl Course {
    /// Goes on to a time, until which `held` was held, and takes in what is held then; at most `most` buckets are kept.
    fn see(&mut self, at_unix_ns: u64, held: Parts, now: Parts, most: usize) {
        if self.greatest.is_empty() {
            (self.shift, self.first) = (NARROWEST, at_unix_ns >> NARROWEST);
            self.greatest.push(now);
            return;
        }
        // What comes from another thread may be a little older than the newest: it counts as that.
        let mut past = self.past(at_unix_ns);
        while past >= most as u64 {
            self.widen();
            past = self.past(at_unix_ns);
        }
        while self.greatest.len() as u64 <= past {
            self.greatest.push(held);
        }
        if let Some(last) = self.greatest.last_mut() {
            join(last, now);
        }
    }

    /// How many buckets lie between the first and that of a time.
    fn past(&self, at_unix_ns: u64) -> u64 {
        (at_unix_ns >> self.shift).saturating_sub(self.first)
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

/// The greatest of both, part by part.
pub(super) fn join(of: &mut Parts, other: Parts) {
    for (of, other) in of.iter_mut().zip(other) {
        *of = other.max(*of);
    }
}

fn parts(now: &Levels) -> Parts {
    let reserved = now.reserved.unwrap_or(0);
    let process = match now.physical {
        // A snapshot that was imported has PyTorch's own figures only.
        0 => now.driver.max(reserved),
        physical => physical,
    };
    [now.tensor, reserved, process]
}

/// Follows the records of a capture beside the replay.
#[derive(Debug)]
pub struct CourseWatch {
    started_unix_ns: u64,
    most: usize,
    devices: Vec<(DeviceOrdinal, Course, Parts)>,
}

impl CourseWatch {
    /// Of a capture that was begun then; at most so many buckets are kept of each device.
    pub fn new(started_unix_ns: u64, most: usize) -> Self {
        Self {
            started_unix_ns,
            most: most.max(2),
            devices: Vec::new(),
        }
    }

    /// Takes in an event, or the state that a bounded capture begins with, after the replay has.
    pub fn observe(&mut self, replay: &Replay, device: DeviceOrdinal, after_ns: u64) {
        let Some(on) = replay.devices.get(&device) else {
            return;
        };
        let at = self.started_unix_ns.saturating_add(after_ns);
        let now = parts(&on.now);
        let place = self.devices.iter().position(|(of, ..)| *of == device);
        let place = place.unwrap_or_else(|| {
            self.devices.push((device, Course::default(), now));
            self.devices.len() - 1
        });
        if let Some((_, course, held)) = self.devices.get_mut(place) {
            course.see(at, *held, now, self.most);
            *held = now;
        }
    }

    /// What a device held until the process's end.
    pub fn finish(self, device: DeviceOrdinal, end_unix_ns: u64) -> Course {
        let mut all = self.devices.into_iter();
        let Some((_, mut course, held)) = all.find(|(of, ..)| *of == device) else {
            return Course::default();
        };
        course.see(end_unix_ns, held, held, self.most);
        course.greatest.shrink_to_fit();
        course
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const UNIT: u64 = 1 << NARROWEST;

    fn course(seen: &[(u64, u64)], most: usize) -> Course {
        let (mut course, mut held) = (Course::default(), [0; 3]);
        for (at, tensors) in seen {
            let now = [*tensors, 2 * tensors, 3 * tensors];
            course.see(at * UNIT, held, now, most);
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
            // What was held when the bucket began counts, too.
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
}
