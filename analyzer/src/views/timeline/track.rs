//! One device over time, in buckets.

use gpumem_capture::{Nanos, Seq};

use super::holders::Held;
use super::tensors::{ByCategory, Differences, Ended, index_of};
use crate::replay::{Levels, SpanContext};

/// Tensors, driver, host, physical.
pub(super) const LEVELS: usize = 4;

/// A device just after an event.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Point {
    pub seq: Seq,
    pub time: Nanos,
    pub levels: Levels,
    pub held: Held,
    /// Blocks of tensors that were live and have ended.
    pub by_category: ByCategory,
}

/// The maximum of one level, and its event.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Most {
    pub bytes: u64,
    pub seq: Seq,
    pub time: Nanos,
}

/// A stretch of time with events.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bucket {
    pub index: u64,
    /// The largest point: the first one with the maximum of [`Levels::rank`].
    pub at: Point,
    /// Its last event.
    pub last: Point,
    pub most: [Most; LEVELS],
    /// NVML's figure of this process at the last reading.
    pub nvml: Option<u64>,
}

/// A device's buckets so far.
#[derive(Debug, Default)]
pub(super) struct Track {
    pub buckets: Vec<Bucket>,
    pub held: Held,
    /// The step and phase at the largest point, if wanted.
    pub peak_context: Option<SpanContext>,
    most: (u64, u64, u64),
    now: Point,
    /// NVML's newest figure of this process.
    reading: Option<u64>,
    /// Bytes to be added to the buckets' [`Bucket::at`] and [`Bucket::last`].
    at: Differences,
    last: Differences,
}

/// The levels as a list: see [`LEVELS`].
pub(super) fn each(levels: &Levels) -> [u64; LEVELS] {
    [levels.tensor, levels.driver, levels.host, levels.physical]
}

impl Track {
    /// Observes an event before the first bucket.
    pub fn pass(&mut self, seq: Seq, time: Nanos, levels: Levels) {
        self.now = Point {
            seq,
            time,
            levels,
            held: self.held,
            ..Point::default()
        };
    }

    /// The first bucket begins here, with the state after the last event.
    pub fn begin(&mut self, seq: Seq, time: Nanos) {
        let reading = self.reading;
        self.point(0, seq, time, self.now.levels);
        if let Some(bucket) = self.buckets.last_mut() {
            bucket.nvml = reading;
        }
    }

    /// Observes an event in the bucket `index`. Returns whether the device exceeds all earlier buckets.
    pub fn point(&mut self, index: u64, seq: Seq, time: Nanos, levels: Levels) -> bool {
        let before = self.now;
        self.pass(seq, time, levels);
        match self.buckets.last_mut() {
            Some(bucket) if bucket.index == index => bucket.add(&self.now),
            _ => {
                self.close(before);
                self.buckets.push(Bucket::new(index, &self.now));
            }
        }
        let is_more = levels.rank() > self.most;
        self.most = self.most.max(levels.rank());
        is_more
    }

    /// Ends the newest bucket.
    fn close(&mut self, last: Point) {
        if let Some(bucket) = self.buckets.last_mut() {
            bucket.last = last;
        }
    }

    /// A tensor's block ends with the next event, in the bucket `index`.
    pub fn ended(&mut self, index: u64, block: Ended) {
        let mut over = self.buckets.len();
        match self.buckets.last_mut() {
            Some(newest) if newest.index == index => {
                over -= 1;
                newest.ended(block);
            }
            _ => self.close(self.now),
        }
        let over = &self.buckets[..over];
        // Most blocks are younger than the newest bucket.
        if over
            .last()
            .is_some_and(|bucket| bucket.last.seq >= block.made)
        {
            let from = |point: fn(&Bucket) -> &Point| {
                over.partition_point(|bucket| point(bucket).seq < block.made)
            };
            let [at, last] = [from(|bucket| &bucket.at), from(|bucket| &bucket.last)];
            self.at.add(at, over.len(), block);
            self.last.add(last, over.len(), block);
        }
    }

    /// Adds the blocks that ended to each point.
    fn settle(&mut self) {
        fn at(bucket: &mut Bucket) -> &mut ByCategory {
            &mut bucket.at.by_category
        }
        fn last(bucket: &mut Bucket) -> &mut ByCategory {
            &mut bucket.last.by_category
        }
        self.at.settle(self.buckets.iter_mut().map(at));
        self.last.settle(self.buckets.iter_mut().map(last));
    }

    /// Observes NVML's figure of this process. Returns whether it changed.
    pub fn reading(&mut self, process: u64) -> bool {
        let is_new = self.reading.replace(process) != Some(process);
        if let Some(bucket) = self.buckets.last_mut() {
            bucket.nvml = Some(process);
        }
        is_new
    }

    /// Doubles the width of buckets.
    pub fn merge(&mut self) {
        self.close(self.now);
        self.settle();
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

    /// Ends the last bucket and returns all. `live`: blocks that did not end.
    pub fn finish(mut self, live: impl Iterator<Item = Ended>) -> Vec<Bucket> {
        for block in live {
            self.ended(u64::MAX, block);
        }
        self.close(self.now);
        self.settle();
        self.buckets
    }
}

impl Bucket {
    fn new(index: u64, point: &Point) -> Self {
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

    /// A block ends that may have been live at the largest point so far.
    fn ended(&mut self, block: Ended) {
        if self.at.seq >= block.made {
            let of = &mut self.at.by_category[index_of(block.category)];
            *of = of.saturating_add(block.bytes);
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

    /// Merges the following bucket into this one.
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

const _: () = assert!(size_of::<Bucket>() <= 768, "2,048 of them a device");

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
        let buckets = track.finish(std::iter::empty());
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
