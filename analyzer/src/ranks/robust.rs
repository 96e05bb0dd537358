//! Decides whether a figure differs from those of its peers.

use schemars::JsonSchema;
use serde::Serialize;

/// The rule as text.
pub const RULE: &str = "a rank differs if its distance from its peers' median is above 5 standard deviations (each 1.4826 x the median absolute deviation), above 1 % of the peers' memory, and above 2 MiB";

/// The standard deviation of a normal distribution relative to its median absolute deviation.
const DEVIATION: f64 = 1.4826;
const DEVIATIONS: f64 = 5.0;
/// The minimum difference in bytes.
const LEAST: u64 = 2 << 20;

/// The minimum difference between ranks that hold `held` bytes: 1 % of these, but at least 2 MiB.
pub fn least(held: u64) -> u64 {
    (held / 100).max(LEAST)
}

/// Distribution of a figure among peers. In JSON all values are bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Spread {
    /// Median of the peers' figures: the middle one, or the lower of the two middle ones.
    pub median: i64,
    /// Median of the distances of the figures from `median`.
    pub deviation: u64,
    /// Distance from `median` above which a figure differs: 5 × 1.4826 × `deviation`, but at least the minimum
    /// difference. That is 2 MiB, and in `outliers` also 1 % of the peers' memory.
    pub threshold: u64,
}

impl Spread {
    /// Computes the distribution of figures in any order; `None` without figures. A distance up to `least` is not a
    /// difference.
    pub fn of(figures: &mut [i64], least: u64) -> Option<Self> {
        let median = middle(figures)?;
        let mut distances: Vec<u64> = figures.iter().map(|of| of.abs_diff(median)).collect();
        let deviation = middle(&mut distances)?;
        let by_spread = (DEVIATIONS * DEVIATION * deviation as f64).ceil() as u64;
        Some(Self {
            median,
            deviation,
            threshold: by_spread.max(least),
        })
    }

    /// The signed distance of a figure from the median if the figure differs, else `None`.
    pub fn off(&self, figure: i64) -> Option<i64> {
        let is_off = figure.abs_diff(self.median) > self.threshold;
        is_off.then(|| figure.saturating_sub(self.median))
    }

    /// Whether the deviation exceeds a twentieth of the median, so that the figures may be of several kinds.
    pub fn is_wide(&self) -> bool {
        self.deviation > LEAST && self.deviation > self.median.unsigned_abs() / 20
    }
}

/// The median: the middle one, or the lower of the two middle ones.
pub fn middle<T: Ord + Copy>(figures: &mut [T]) -> Option<T> {
    let at = figures.len().checked_sub(1)? / 2;
    Some(*figures.select_nth_unstable(at).1)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: i64 = 1 << 20;

    fn spread(figures: &[i64]) -> Spread {
        Spread::of(&mut figures.to_vec(), least(1000 << 20)).unwrap()
    }

    #[test]
    fn one_that_stands_out_is_off_and_its_peers_are_not() {
        let of = spread(&[1000 * MIB, 1001 * MIB, 1000 * MIB, 1400 * MIB, 999 * MIB]);
        assert_eq!(of.median, 1000 * MIB);
        assert_eq!(of.off(1400 * MIB), Some(400 * MIB));
        assert_eq!(of.off(1001 * MIB), None);
        assert_eq!(of.off(980 * MIB), Some(-20 * MIB));
    }

    #[test]
    fn small_differences_of_equal_ranks_are_none() {
        let of = spread(&[100 * MIB; 8]);
        assert_eq!((of.deviation, of.threshold), (0, 10 << 20));
        assert_eq!(of.off(110 * MIB), None);
        assert_eq!(of.off(110 * MIB + 1), Some(10 * MIB + 1));
        assert_eq!(least(100 << 20), 2 << 20);
    }

    #[test]
    fn what_scatters_by_itself_is_measured_by_its_own_scatter() {
        let figures: Vec<i64> = (0..101).map(|n| 1000 * MIB + n * MIB).collect();
        let of = spread(&figures);
        assert_eq!((of.median, of.deviation), (1050 * MIB, 25 << 20));
        assert!(figures.iter().all(|figure| of.off(*figure).is_none()));
    }

    #[test]
    fn two_groups_are_wide_and_none_is_no_spread() {
        assert!(!spread(&[10 << 30; 5]).is_wide());
        assert!(spread(&[10, 10, 15, 20, 20].map(|gib| gib << 30)).is_wide());
        assert_eq!(Spread::of(&mut [], 0), None);
    }
}
