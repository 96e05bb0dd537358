//! One device over time: its buckets.

use gpumem_capture::{Nanos, Seq};

use super::holders::{HOLDERS, Held};
use crate::replay::Levels;

/// Tensors, driver, host, physical.
pub(super) const LEVELS: usize = 4;

/// A device just after an event.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Point {
    pub seq: Seq,
    pub time: Nanos,
    pub levels: Levels,
    pub held: Held,
}

/// The most of one level, and the event that made it so.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Most {
    pub bytes: u64,
    pub seq: Seq,
    pub time: Nanos,
}

/// A stretch of time in which something happened.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bucket {
    pub index: u32,
    /// Where the device held most: the first of the moments whose [`Levels::rank`] is greatest.
    pub at: Point,
    /// Its last event.
    pub last: Point,
    pub most: [Most; LEVELS],
    /// This process's figure at the last reading of NVML.
    pub nvml: Option<u64>,
}

/// A device's buckets so far.
#[derive(Debug, Default)]
pub(super) struct Track {
    pub buckets: Vec<Bucket>,
    pub held: Held,
    now: Point,
}

/// The levels one by one: see [`LEVELS`].
pub(super) fn each(levels: &Levels) -> [u64; LEVELS] {
    [levels.tensor, levels.driver, levels.host, levels.physical]
}

impl Track {
    /// An event was taken in, at the bucket `index`.
    pub fn point(&mut self, index: u32, seq: Seq, time: Nanos, levels: Levels) {
        let before = self.now;
        self.now = Point {
            seq,
            time,
            levels,
            held: self.held,
        };
        match self.buckets.last_mut() {
            Some(bucket) if bucket.index == index => bucket.add(&self.now),
            _ => {
                self.close(before);
                self.buckets.push(Bucket::new(index, &self.now));
            }
        }
    }

    /// The newest bucket is over.
    fn close(&mut self, last: Point) {
        if let Some(bucket) = self.buckets.last_mut() {
            bucket.last = last;
        }
    }

    /// NVML's figure of this process.
    pub fn reading(&mut self, process: u64) {
        if let Some(bucket) = self.buckets.last_mut() {
            bucket.nvml = Some(process);
        }
    }

    /// The buckets become twice as wide.
    pub fn merge(&mut self) {
        self.close(self.now);
        self.buckets.dedup_by(|later, earlier| {
            let alike = earlier.index / 2 == later.index / 2;
            if alike {
                earlier.join(later);
            }
            alike
        });
        for bucket in &mut self.buckets {
            bucket.index /= 2;
        }
    }

    /// The buckets, the last one closed.
    pub fn finish(mut self) -> Vec<Bucket> {
        self.close(self.now);
        self.buckets
    }
}

impl Bucket {
    fn new(index: u32, point: &Point) -> Self {
        Self {
            index,
            at: *point,
            last: *point,
            most: each(&point.levels).map(|bytes| Most {
                bytes,
                seq: point.seq,
                time: point.time,
            }),
            nvml: None,
        }
    }

    fn add(&mut self, point: &Point) {
        if point.levels.rank() > self.at.levels.rank() {
            self.at = *point;
        }
        for (most, bytes) in self.most.iter_mut().zip(each(&point.levels)) {
            if bytes > most.bytes {
                let (seq, time) = (point.seq, point.time);
                *most = Most { bytes, seq, time };
            }
        }
    }

    /// Takes in the one that follows.
    fn join(&mut self, later: &Self) {
        if later.at.levels.rank() > self.at.levels.rank() {
            self.at = later.at;
        }
        self.last = later.last;
        for (most, other) in self.most.iter_mut().zip(&later.most) {
            if other.bytes > most.bytes {
                *most = *other;
            }
        }
        self.nvml = later.nvml.or(self.nvml);
    }
}

const _: () = assert!(HOLDERS == 16, "a bucket has half a KiB");

#[cfg(test)]
mod tests {
    use super::*;

    fn levels(tensor: u64, host: u64) -> Levels {
        Levels {
            tensor,
            host,
            ..Levels::default()
        }
    }

    #[test]
    fn merging_keeps_the_most_and_the_last() {
        let mut track = Track::default();
        let events = [
            (0, 5, 1),
            (0, 9, 0),
            (1, 7, 8),
            (1, 2, 3),
            (4, 9, 2),
            (5, 1, 1),
        ];
        for (seq, (index, tensor, host)) in events.into_iter().enumerate() {
            let seq = Seq(seq as u64);
            track.point(index, seq, Nanos(seq.0 * 10), levels(tensor, host));
        }
        track.merge();
        track.merge();
        let buckets = track.finish();
        let of = |bucket: &Bucket| {
            let [tensor, _, host, _] = bucket.most.map(|most| (most.bytes, most.seq.0));
            let last = (bucket.last.seq.0, bucket.last.levels.tensor);
            (bucket.index, bucket.at.seq.0, tensor, host, last)
        };
        let all: Vec<_> = buckets.iter().map(of).collect();
        let first = (0, 1, (9, 1), (8, 2), (3, 2));
        assert_eq!(all, [first, (1, 4, (9, 4), (2, 4), (5, 1))]);
    }
}
