//! Idle stretches of a run, and the axis of time on which they are folded.
//!
//! A program that imports for three seconds and trains for a tenth of one would have its training in a few columns.
//! So gaps between events that are long compared with the rest are drawn narrow.

use gpumem_capture::Nanos;

/// How many of the longest gaps are kept.
const KEPT: usize = 32;
/// A gap is folded if it is at least this fraction (1 / `LEAST`) of the other unfolded time,
const LEAST: u64 = 8;
/// and this fraction (1 / `OF_ALL`) of the whole time.
const OF_ALL: u64 = 100;
/// At least this many gaps are not folded: a run of a few events is not changed.
const OTHERS: u64 = 8;
/// The maximum number of folds.
const MOST: usize = 12;
/// The share of the axis for a fold, and the maximum for all folds.
const WIDTH: f64 = 0.02;
const ALL_WIDTHS: f64 = 0.24;

/// The longest gaps between events so far.
#[derive(Clone, Debug)]
pub(super) struct Gaps {
    from: u64,
    now: u64,
    /// The number of events that are later than the one before.
    count: u64,
    /// The longest first; of equal ones, the earlier.
    longest: Vec<[u64; 2]>,
}

fn length([from, to]: [u64; 2]) -> u64 {
    to - from
}

impl Gaps {
    /// Starts at this time.
    pub fn from(start: Nanos) -> Self {
        Self {
            from: start.0,
            now: start.0,
            count: 0,
            longest: Vec::with_capacity(KEPT + 1),
        }
    }

    /// An event occurs.
    #[inline]
    pub fn event(&mut self, time: Nanos) {
        if time.0 <= self.now {
            return;
        }
        let gap = [self.now, time.0];
        self.now = time.0;
        self.count += 1;
        let full = self.longest.len() == KEPT;
        let least = self.longest.last().filter(|_| full);
        if least.is_none_or(|least| length(*least) < length(gap)) {
            let at = self
                .longest
                .partition_point(|had| length(*had) >= length(gap));
            self.longest.insert(at, gap);
            self.longest.truncate(KEPT);
        }
    }

    /// Gaps that are long compared with the rest of the time up to `to`, by time.
    pub fn folds(&self, to: u64) -> Vec<[u64; 2]> {
        let whole = to.max(self.now) - self.from;
        let mut left = whole;
        let mut folds = Vec::new();
        for gap in self.longest.iter().take(MOST) {
            let rest = left - length(*gap);
            let others = self.count - folds.len() as u64 - 1;
            let least = rest.div_ceil(LEAST).max(whole / OF_ALL);
            if rest == 0 || others < OTHERS || length(*gap) < least {
                break;
            }
            folds.push(*gap);
            left = rest;
        }
        folds.sort_unstable();
        folds
    }
}

/// The axis of time: stretches of one scale, with narrow folds between them.
#[derive(Clone, Debug, PartialEq)]
pub struct TimeAxis {
    from: u64,
    to: u64,
    folds: Vec<[u64; 2]>,
    /// The share of the axis for each fold.
    width: f64,
    /// The share of a nanosecond outside folds.
    scale: f64,
}

impl TimeAxis {
    /// From one time to another. `folds` are the stretches in between to be narrow, by time.
    pub fn new(from: u64, to: u64, folds: &[[u64; 2]]) -> Self {
        let folds = folds.to_vec();
        let folded: u64 = folds.iter().copied().map(length).sum();
        let width = WIDTH.min(ALL_WIDTHS / folds.len().max(1) as f64);
        let whole = to.saturating_sub(from).saturating_sub(folded).max(1);
        Self {
            from,
            to,
            scale: (1.0 - width * folds.len() as f64) / whole as f64,
            folds,
            width,
        }
    }

    /// The start.
    pub fn from(&self) -> u64 {
        self.from
    }

    /// The end.
    pub fn to(&self) -> u64 {
        self.to
    }

    /// The folds.
    pub fn folds(&self) -> &[[u64; 2]] {
        &self.folds
    }

    /// The time that is not folded; never 0.
    pub fn unfolded(&self) -> u64 {
        let folded: u64 = self.folds.iter().copied().map(length).sum();
        self.to
            .saturating_sub(self.from)
            .saturating_sub(folded)
            .max(1)
    }

    /// Whether a time is on it.
    pub fn has(&self, time: u64) -> bool {
        (self.from..=self.to).contains(&time)
    }

    /// The position of a time, from 0 to 1. Times outside are at the nearer end.
    pub fn share(&self, time: u64) -> f64 {
        let time = time.clamp(self.from, self.to.max(self.from));
        let (mut at, mut share) = (self.from, 0.0);
        for [from, to] in self.folds.iter().copied() {
            if time <= from {
                break;
            }
            share += (from - at) as f64 * self.scale;
            let part = (time.min(to) - from) as f64 / (to - from) as f64;
            share += self.width * part;
            at = to;
        }
        share += time.saturating_sub(at) as f64 * self.scale;
        share.min(1.0)
    }

    /// The time at a position from 0 to 1.
    pub fn time(&self, share: f64) -> u64 {
        let (mut at, mut left) = (self.from, share.clamp(0.0, 1.0));
        for [from, to] in self.folds.iter().copied() {
            let plain = (from - at) as f64 * self.scale;
            if left <= plain {
                break;
            }
            left -= plain;
            if left < self.width {
                return from + ((to - from) as f64 * left / self.width) as u64;
            }
            left -= self.width;
            at = to;
        }
        at.saturating_add((left / self.scale) as u64).min(self.to)
    }

    /// The stretches between the folds, each from one time to another. Some have no length.
    pub fn pieces(&self) -> impl Iterator<Item = [u64; 2]> {
        let begins = [self.from]
            .into_iter()
            .chain(self.folds.iter().map(|fold| fold[1]));
        let ends = self.folds.iter().map(|fold| fold[0]).chain([self.to]);
        begins.zip(ends).map(<[u64; 2]>::from)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    fn folds(times: impl IntoIterator<Item = u64>) -> Vec<[u64; 2]> {
        let mut times = times.into_iter();
        let mut gaps = Gaps::from(Nanos(times.next().unwrap_or(0)));
        times.for_each(|time| gaps.event(Nanos(time)));
        gaps.folds(gaps.now)
    }

    #[test]
    fn a_run_of_a_few_events_or_none_is_not_folded() {
        let none: Vec<[u64; 2]> = Vec::new();
        assert_eq!(folds([]), none);
        assert_eq!(folds([5]), none);
        assert_eq!(folds([0, 10 * SECOND]), none);
        assert_eq!(folds([0, SECOND, 2 * SECOND, 2 * SECOND + 1]), none);
        assert_eq!(folds([7; 100]), none, "all at once");
    }

    #[test]
    fn one_gap_of_most_of_the_run_is_folded() {
        let start = (0..50).map(|event| event * 1000);
        let late = (0..50).map(|event| 5 * SECOND + event * 1000);
        assert_eq!(folds(start.chain(late)), [[49_000, 5 * SECOND]]);
    }

    #[test]
    fn start_up_and_exit_are_folded_and_the_training_is_not() {
        let training = (0..1000).map(|event| 3 * SECOND + event * 100_000);
        let exit = [3_600_000_000, 4_000_000_000];
        let run = [0, 5_000_000].into_iter().chain(training).chain(exit);
        let last = 3 * SECOND + 99_900_000;
        let expected = [[5_000_000, 3 * SECOND], [last, exit[0]], [exit[0], exit[1]]];
        assert_eq!(folds(run), expected);
    }

    #[test]
    fn a_run_without_long_gaps_is_not_folded_and_events_may_go_back() {
        let even = (0..1000).map(|event| event * SECOND);
        assert!(folds(even).is_empty());
        let steps = (0..40_u64).flat_map(|step| {
            let begin = step * SECOND;
            (0..20).map(move |event| begin + event * 1000)
        });
        assert!(folds(steps).is_empty(), "each step ends with as long a gap");
        let back = (0..100_u64).map(|event| 1000 * event - 500 * (event % 2));
        assert!(folds(back).is_empty());
    }

    #[test]
    fn what_is_short_compared_with_the_run_stays() {
        let steps = (0..5_u64).flat_map(|step| {
            let begin = 100 * SECOND + step * SECOND / 2;
            (0..50).map(move |event| begin + event * 1000)
        });
        let start = (0..10).map(|event| event * 1000);
        assert_eq!(folds(start.chain(steps)), [[9000, 100 * SECOND]]);
    }

    #[test]
    fn of_many_gaps_only_the_longest_are_folded_and_few_are_kept() {
        let mut time = 0;
        let mut times = vec![0];
        for gap in 0..200_u64 {
            time += 1000 << (gap % 50);
            times.extend([time, time + 1, time + 2]);
            time += 2;
        }
        let folds = folds(times);
        assert!((1..=MOST).contains(&folds.len()), "{}", folds.len());
        assert!(folds.windows(2).all(|pair| pair[0][1] <= pair[1][0]));
    }

    #[test]
    fn the_axis_goes_both_ways_and_folds_are_narrow() {
        let plain = TimeAxis::new(100, 300, &[]);
        assert_eq!([0.0, 0.25, 1.0].map(|at| plain.time(at)), [100, 150, 300]);
        assert_eq!([0, 200, 900].map(|at| plain.share(at)), [0.0, 0.5, 1.0]);
        let folds = [[1000, 900_000], [901_000, 2_000_000]];
        let axis = TimeAxis::new(0, 2_000_500, &folds);
        assert_eq!(axis.unfolded(), 2500);
        let width = axis.share(900_000) - axis.share(1000);
        assert!((width - WIDTH).abs() < 1e-9, "{width}");
        let mut before = -1.0;
        for time in [
            0, 1, 999, 1000, 450_000, 900_000, 900_500, 901_000, 2_000_000, 2_000_500,
        ] {
            let share = axis.share(time);
            assert!(share > before, "{time}");
            assert!(
                axis.time(share).abs_diff(time) <= 1 + time / 1_000_000,
                "{time}"
            );
            before = share;
        }
        assert_eq!(axis.share(2_000_500), 1.0);
        let pieces: Vec<_> = axis.pieces().collect();
        assert_eq!(
            pieces,
            [[0, 1000], [900_000, 901_000], [2_000_000, 2_000_500]]
        );
        let nothing = TimeAxis::new(7, 7, &[]);
        assert_eq!((nothing.share(7), nothing.time(0.5)), (0.0, 7));
        let many: Vec<_> = (0..40)
            .map(|fold| [fold * 100 + 1, fold * 100 + 99])
            .collect();
        let axis = TimeAxis::new(0, 4000, &many);
        assert!(axis.share(4000) <= 1.0 && axis.share(1) > 0.0);
    }
}
