//! Live bytes over the rounds of a loop, with a bounded number of points.

use crate::views::growth::grows;

/// The maximum number of points.
const MOST: usize = 32;
/// The least number of points that show growth.
const LEAST: usize = 5;

/// The live bytes when a round began.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Point {
    /// The round.
    pub round: u64,
    pub bytes: u64,
    pub blocks: u64,
}

/// The points since the figure last fell to less than half.
#[derive(Clone, Debug, Default)]
pub(super) struct Series {
    points: Vec<Point>,
    /// The distance between points is this power of two.
    stride: u32,
    most: u64,
}

impl Series {
    pub fn push(&mut self, point: Point) {
        if point.bytes < self.most / 2 {
            *self = Self::default();
        }
        if point.round & ((1 << self.stride) - 1) != 0 {
            return;
        }
        self.most = self.most.max(point.bytes);
        while self.points.len() >= MOST {
            self.stride += 1;
            let odd = (1 << self.stride) - 1;
            self.points.retain(|point| point.round & odd == 0);
            if point.round & odd != 0 {
                return;
            }
        }
        self.points.push(point);
    }

    /// The first and the last point, if the bytes grow to the end and almost never shrink.
    pub fn growth(&self) -> Option<(Point, Point)> {
        let series: Vec<(u64, u64)> = self.points.iter().map(|of| (of.round, of.bytes)).collect();
        if series.len() < LEAST || !grows(&series) {
            return None;
        }
        let (first, last) = (*self.points.first()?, *self.points.last()?);
        let back = series
            .windows(2)
            .map(|pair| pair[0].1.saturating_sub(pair[1].1));
        let net = last.bytes.saturating_sub(first.bytes);
        (back.sum::<u64>() <= net / 5).then_some((first, last))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn growth(bytes: impl Fn(u64) -> u64, rounds: u64) -> Option<(u64, u64)> {
        let mut series = Series::default();
        for round in 1..=rounds {
            series.push(Point {
                round,
                bytes: bytes(round),
                blocks: round,
            });
            assert!(series.points.len() <= MOST);
        }
        series
            .growth()
            .map(|(first, last)| (first.bytes, last.bytes))
    }

    #[test]
    fn a_list_grows_and_a_buffer_that_is_full_does_not() {
        assert_eq!(growth(|round| 7 * round, 6), Some((7, 42)));
        assert_eq!(growth(|round| 7 * round, 3), None, "too few");
        assert!(growth(|round| 7 * round, 10_000).is_some());
        assert_eq!(growth(|round| 7 * round.min(10), 60), None);
        assert_eq!(growth(|_| 7, 60), None);
        assert_eq!(growth(|round| round * 2_654_435_761 % 97, 60), None);
    }

    #[test]
    fn what_was_flushed_counts_from_then_on() {
        let sawtooth = |round: u64| 100 * (round % 20);
        assert_eq!(growth(sawtooth, 39), Some((0, 1900)));
        assert_eq!(growth(sawtooth, 41), None, "too few since");
    }
}
