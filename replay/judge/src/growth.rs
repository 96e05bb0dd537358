//! Whether memory grows from round to round, and by how much. The only definition.
//!
//! A round is a step of a training, or a round of a loop: see [`crate::RoundClock`]. A series has a figure for the ends
//! of at most [`MOST`] rounds, evenly apart.

use std::hash::Hash;
use std::ops::AddAssign;

use gpumem_replay::Figure;
use gpumem_replay::units::range;
use rustc_hash::FxHashMap;

/// The maximum number of rounds in a series.
const MOST: usize = 64;
/// The least number of rounds that show growth.
const LEAST: usize = 4;

/// How a figure changes from round to round.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Growth {
    /// Whether it grows to the end of the series.
    ///
    /// The bytes of the last third are above those of the first, and have risen. So has the number of blocks, or the
    /// bytes have risen each time. What reaches a limit, goes up and down or rises once does not grow.
    pub is_growth: bool,
    /// Bytes per round: the slope of the straight line that fits best.
    pub per_round: i64,
    /// The smallest and the largest slope of a third of the series, and of the whole.
    pub range: (i64, i64),
}

impl Growth {
    /// The growth of a series of rounds with their figures.
    pub fn of(series: &[(u64, Figure)]) -> Self {
        let bytes: Vec<u64> = series.iter().map(|(_, figure)| figure.bytes).collect();
        let blocks: Vec<u64> = series.iter().map(|(_, figure)| figure.blocks).collect();
        let is_rising = |values: &[u64]| values.windows(2).all(|two| two[0] < two[1]);
        let per_round = slope(series);
        let third = (series.len() / 3).max(1);
        let ends = [0, third, series.len().saturating_sub(third + 1)];
        let parts = ends.map(|from| series.get(from..=from + third).map_or(per_round, slope));
        Self {
            is_growth: rises(&bytes) && (rises(&blocks) || is_rising(&bytes)),
            per_round,
            range: parts.iter().fold((per_round, per_round), |all, part| {
                (all.0.min(*part), all.1.max(*part))
            }),
        }
    }

    /// Bytes per round as text: `1.00 MiB`, or `8.00 to 8.20 MiB` if it is not even.
    pub fn text(&self) -> String {
        range(self.range.0, self.range.1)
    }
}

impl AddAssign for Growth {
    /// The sum grows if one of both does.
    fn add_assign(&mut self, other: Self) {
        self.is_growth = self.is_growth || other.is_growth;
        self.per_round = self.per_round.saturating_add(other.per_round);
        self.range.0 = self.range.0.saturating_add(other.range.0);
        self.range.1 = self.range.1.saturating_add(other.range.1);
    }
}

fn rises(values: &[u64]) -> bool {
    let third = values.len() / 3;
    if values.len() < LEAST {
        return false;
    }
    let (first, last) = (&values[..third], &values[values.len() - third - 1..]);
    first.iter().max() < last.iter().skip(1).min() && last.first() < last.last()
}

/// The slope of the straight line that fits best (least squares), rounded.
fn slope(series: &[(u64, Figure)]) -> i64 {
    let (n, x0) = (series.len() as i128, series.first().map_or(0, |(x, _)| *x));
    let (mut x, mut y, mut xx, mut xy) = (0, 0, 0, 0);
    for (round, figure) in series {
        // Steps in a capture may have any numbers.
        let (round, bytes) = (
            i128::from((round - x0).min(1 << 40)),
            i128::from(figure.bytes),
        );
        x += round;
        y += bytes;
        xx += round * round;
        xy += round * bytes;
    }
    let (above, below) = (n * xy - x * y, n * xx - x * x);
    if below == 0 {
        return 0;
    }
    let half = if above < 0 { -below / 2 } else { below / 2 };
    i64::try_from((above + half) / below).unwrap_or(i64::MAX)
}

/// Figures at the ends of rounds: of each round at the beginning, later of every second, every fourth, so that their
/// number is bounded.
#[derive(Clone, Debug)]
pub struct Ends<K> {
    first: u64,
    stride: u64,
    rounds: Vec<u64>,
    /// Without zeros.
    figures: FxHashMap<K, Vec<(u64, Figure)>>,
}

impl<K: Copy + Eq + Hash> Ends<K> {
    /// Starts at the end of this round.
    pub fn from(first: u64) -> Self {
        Self {
            first: first.max(1),
            stride: 1,
            rounds: Vec::new(),
            figures: FxHashMap::default(),
        }
    }

    /// The newest round has ended; its figures are taken if they are to be kept.
    pub fn end<I: IntoIterator<Item = (K, Figure)>>(
        &mut self,
        round: u64,
        figures: impl FnOnce() -> I,
    ) {
        let is_next = self.rounds.last().is_none_or(|last| *last < round);
        let since = round.checked_sub(self.first);
        if !is_next || since.is_none_or(|since| since % self.stride != 0) {
            return;
        }
        self.rounds.push(round);
        for (key, figure) in figures().into_iter().filter(|(_, of)| of.bytes > 0) {
            self.figures.entry(key).or_default().push((round, figure));
        }
        if self.rounds.len() < MOST {
            return;
        }
        self.stride = self.stride.saturating_mul(2);
        let (first, stride) = (self.first, self.stride);
        let fits = |round: u64| (round - first).is_multiple_of(stride);
        self.rounds.retain(|round| fits(*round));
        for of in self.figures.values_mut() {
            of.retain(|(round, _)| fits(*round));
        }
        self.figures.retain(|_, of| !of.is_empty());
    }

    /// The rounds whose figures are kept, in order.
    pub fn rounds(&self) -> &[u64] {
        &self.rounds
    }

    /// The keys that had any bytes.
    pub fn keys(&self) -> impl Iterator<Item = K> {
        self.figures.keys().copied()
    }

    /// The figures of a key in order, without zeros.
    pub fn of(&self, key: K) -> &[(u64, Figure)] {
        self.figures.get(&key).map_or(&[], Vec::as_slice)
    }

    /// The sum of the figures of some keys, for each round.
    pub fn sum(&self, keys: &[K]) -> Vec<(u64, Figure)> {
        let mut series: Vec<_> = self
            .rounds
            .iter()
            .map(|of| (*of, Figure::default()))
            .collect();
        for (round, figure) in keys.iter().flat_map(|key| self.of(*key)) {
            if let Ok(at) = self.rounds.binary_search(round) {
                series[at].1 += *figure;
            }
        }
        series
    }
}

/// Memory that a line keeps from each round.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct KeptEach {
    /// Its bytes.
    pub bytes: u64,
    /// The number of rounds that it is of.
    pub rounds: u64,
    /// Increases with its place in a round: with the time of its first allocation, or of its newest one in a round.
    pub place: u64,
}

impl KeptEach {
    /// The index of the line whose tensor probably keeps the memory of the others. A tensor keeps alive what was
    /// allocated before it, so it is the one that comes last in each round, if it is small.
    pub fn holder(lines: &[Self]) -> Option<usize> {
        let all: u64 = lines.iter().map(|of| of.bytes).sum();
        let rounds = lines.iter().map(|of| of.rounds).max()?;
        let (at, last) = lines.iter().enumerate().max_by_key(|(_, of)| of.place)?;
        (last.bytes <= all / 8 && last.rounds + 1 >= rounds).then_some(at)
    }
}

#[cfg(test)]
mod tests;
