//! The peak since each of several start points, at the cost of one maximum per event.
//!
//! The caller keeps the maximum since the newest start point. The time between two start points is a *segment*. The
//! maxima of closed segments are kept here for each row of counters, oldest first and strictly decreasing: a maximum
//! that a later segment reached is not needed. The peak since a start point is the first maximum from its segment on,
//! or the caller's. Maxima without an open start point before them are dropped from time to time, so memory is bounded
//! by the open start points.

use std::collections::BTreeSet;

/// The start point of a peak.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Since(u64);

/// The maxima of closed segments, by rows.
#[derive(Debug, Default)]
pub struct PeaksSince {
    /// The number of the newest segment.
    segment: u64,
    /// The segments that began with open start points.
    open: BTreeSet<u64>,
    rows: Vec<Vec<(u64, u64)>>,
}

impl PeaksSince {
    /// Begins a segment. `closed`: the maximum of each row in the segment that this ends.
    pub fn begin(&mut self, closed: impl IntoIterator<Item = (usize, u64)>) -> Since {
        let room = 2 * self.open.len() + 64;
        for (row, most) in closed {
            if self.rows.len() <= row {
                self.rows.resize_with(row + 1, Vec::new);
            }
            let Some(maxima) = self.rows.get_mut(row) else {
                continue;
            };
            if self.open.is_empty() {
                maxima.clear();
                continue;
            }
            while maxima.last().is_some_and(|(_, lower)| *lower <= most) {
                maxima.pop();
            }
            maxima.push((self.segment, most));
            if maxima.len() > room {
                drop_unasked(maxima, &self.open);
            }
        }
        self.segment += 1;
        self.open.insert(self.segment);
        Since(self.segment)
    }

    /// Closes a start point.
    pub fn end(&mut self, moment: Since) {
        self.open.remove(&moment.0);
    }

    /// A row's maximum in the segments that closed since a start point; 0 without such a segment.
    pub fn since(&self, row: usize, moment: Since) -> u64 {
        let Some(maxima) = self.rows.get(row) else {
            return 0;
        };
        let first = maxima.partition_point(|(segment, _)| *segment < moment.0);
        maxima.get(first).map_or(0, |(_, most)| *most)
    }

    /// How many start points are open.
    pub fn open(&self) -> usize {
        self.open.len()
    }
}

/// Drops each maximum that has no open start point between it and the one before.
fn drop_unasked(maxima: &mut Vec<(u64, u64)>, open: &BTreeSet<u64>) {
    let mut from = 0;
    maxima.retain(|(segment, _)| {
        let asked = open.range(from..=*segment).next().is_some();
        if asked {
            from = segment + 1;
        }
        asked
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A counter as callers keep it.
    #[derive(Default)]
    struct Row {
        live: u64,
        most: u64,
    }

    impl Row {
        fn change(&mut self, by: i64) {
            self.live = self.live.saturating_add_signed(by);
            self.most = self.most.max(self.live);
        }

        fn cut(&mut self) -> u64 {
            core::mem::replace(&mut self.most, self.live)
        }
    }

    /// Returns the same numbers in every run.
    struct Random(u64);

    impl Random {
        fn below(&mut self, limit: u64) -> u64 {
            self.0 ^= self.0 << 13;
            self.0 ^= self.0 >> 7;
            self.0 ^= self.0 << 17;
            self.0 % limit
        }
    }

    /// Compares random start points over two rows with maxima that are updated at every change.
    fn at_random(seed: u64, begins: u64) {
        let mut random = Random(seed);
        let (mut maxima, mut rows) = (PeaksSince::default(), [Row::default(), Row::default()]);
        let mut followed: Vec<(Since, [u64; 2])> = Vec::new();
        for _ in 1..=4000 {
            match random.below(begins) {
                0 => {
                    let live = [rows[0].live, rows[1].live];
                    let moment = maxima.begin([(0, rows[0].cut()), (1, rows[1].cut())]);
                    followed.push((moment, live));
                }
                1 if !followed.is_empty() => {
                    let at = random.below(followed.len() as u64) as usize;
                    maxima.end(followed.swap_remove(at).0);
                }
                _ => {
                    let row = random.below(2) as usize;
                    // Decreases outnumber increases, so that old maxima stay.
                    rows[row].change(random.below(1000) as i64 - 600);
                    if random.below(20) == 0 {
                        rows[row].change(random.below(20_000) as i64);
                    }
                    for (_, most) in &mut followed {
                        most[row] = most[row].max(rows[row].live);
                    }
                }
            }
            assert_eq!(maxima.open(), followed.len());
            for (moment, most) in &followed {
                for row in [0, 1] {
                    let found = maxima.since(row, *moment).max(rows[row].most);
                    assert_eq!(found, most[row]);
                }
            }
        }
    }

    #[test]
    fn peaks_equal_those_followed_change_by_change() {
        for seed in 1..40 {
            at_random(seed, 2 + seed % 9);
        }
    }

    #[test]
    fn maxima_without_an_open_start_point_are_dropped() {
        let (mut maxima, mut row) = (PeaksSince::default(), Row::default());
        row.change(1_000_000);
        let first = maxima.begin([(0, row.cut())]);
        for _ in 2..100_000 {
            row.change(-1);
            let moment = maxima.begin([(0, row.cut())]);
            maxima.end(moment);
        }
        assert!(maxima.rows[0].len() < 200, "{}", maxima.rows[0].len());
        assert_eq!(maxima.since(0, first), 1_000_000);
    }
}
