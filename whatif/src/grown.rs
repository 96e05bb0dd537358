//! The growth of live bytes from step to step of a training.

/// Live bytes at the ends of at most 64 steps, at equal distances.
#[derive(Debug, Default)]
pub(crate) struct Grown {
    kept: Vec<u64>,
    /// The distance of these steps, as a power of two.
    distance: u32,
    seen: u64,
    /// The number of the last step that ended, as in the capture.
    last: u64,
}

impl Grown {
    const MOST: usize = 64;

    /// A step has ended.
    pub(crate) fn step(&mut self, number: u64, live: u64) {
        self.last = number;
        if self.seen.is_multiple_of(1 << self.distance) {
            if self.kept.len() == Self::MOST {
                let mut n = 0;
                self.kept.retain(|_| {
                    n += 1;
                    n % 2 == 1
                });
                self.distance += 1;
            }
            if self.seen.is_multiple_of(1 << self.distance) {
                self.kept.push(live);
            }
        }
        self.seen += 1;
    }

    /// The number of steps that ended.
    pub(crate) fn steps(&self) -> u64 {
        self.last
    }

    /// Bytes per step: the smaller growth of the third and the fourth quarter of the run. 0 without growth, or with
    /// fewer than 8 steps.
    pub(crate) fn bytes_a_step(&self) -> u64 {
        let quarter = self.kept.len().saturating_sub(1) / 4;
        if quarter == 0 || self.seen < 8 {
            return 0;
        }
        let last = self.kept.len() - 1;
        let [from, middle, to] = [last - 2 * quarter, last - quarter, last].map(|n| self.kept[n]);
        let steps = (quarter as u64) << self.distance;
        let growth = |from: u64, to: u64| to.saturating_sub(from) / steps;
        growth(from, middle).min(growth(middle, to))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn grown(live: impl IntoIterator<Item = u64>) -> u64 {
        let mut grown = Grown::default();
        live.into_iter().for_each(|live| grown.step(0, live));
        grown.bytes_a_step()
    }

    #[test]
    fn what_grows_by_the_same_in_each_step_is_told_of_any_number_of_steps() {
        for steps in [8, 9, 63, 64, 65, 1000, 100_000] {
            assert_eq!(grown((0..steps).map(|n| 1000 + 7 * n)), 7, "{steps} steps");
        }
        assert_eq!(grown((0..7).map(|n| 7 * n)), 0);
        assert_eq!(grown([]), 0);
    }

    #[test]
    fn what_grows_at_the_beginning_or_once_does_not_grow() {
        assert_eq!(grown((0..100).map(|n: u64| 7 * n.min(40))), 0);
        assert_eq!(grown((0..100).map(|n: u64| u64::from(n > 60) << 30)), 0);
        assert_eq!(grown((0..100).rev()), 0);
    }
}
