//! Figures over the steps of a training: the steps at which they are recorded, and whether they grow.

/// The maximum number of recorded steps.
const MOST: usize = 64;

/// The steps at whose ends figures are recorded: first all steps, then every second, every fourth, so that their
/// number is bounded.
#[derive(Clone, Debug)]
pub(super) struct Points {
    first: u64,
    stride: u64,
    steps: Vec<u64>,
}

impl Points {
    /// Starts at this step.
    pub fn from(first: u64) -> Self {
        Self {
            first,
            stride: 1,
            steps: Vec::new(),
        }
    }

    /// Whether figures are to be recorded at the end of this step, which is the newest one.
    pub fn take(&mut self, step: u64) -> bool {
        let is_next = self.steps.last().is_none_or(|last| *last < step);
        let taken = is_next && step > 0 && self.fits(step);
        if taken {
            self.steps.push(step);
        }
        taken
    }

    /// Removes every second step if there are too many. Returns whether there were.
    pub fn thin(&mut self) -> bool {
        if self.steps.len() < MOST {
            return false;
        }
        self.stride = self.stride.saturating_mul(2);
        let (first, stride) = (self.first, self.stride);
        self.steps.retain(|step| (step - first) % stride == 0);
        true
    }

    fn fits(&self, step: u64) -> bool {
        step.checked_sub(self.first)
            .is_some_and(|since| since % self.stride == 0)
    }

    /// Whether a step is recorded.
    pub fn has(&self, step: u64) -> bool {
        self.steps.binary_search(&step).is_ok()
    }

    /// All, and the last step, whose figures are also known.
    pub fn with(&self, last: u64) -> Vec<u64> {
        let mut steps = self.steps.clone();
        if last >= self.first.max(1) && steps.last().is_none_or(|step| *step < last) {
            steps.push(last);
        }
        steps
    }
}

/// Whether a series grows to its end: its last third is above its first one and has itself risen. Series that reach a
/// limit, that fluctuate, or that rose once do not grow.
pub(super) fn grows(series: &[(u64, u64)]) -> bool {
    let third = series.len() / 3;
    if series.len() < 4 {
        return false;
    }
    let values = |part: &[(u64, u64)]| part.iter().map(|(_, y)| *y).collect::<Vec<_>>();
    let first = values(&series[..third]);
    let last = values(&series[series.len() - third - 1..]);
    let above = first.iter().max() < last.iter().skip(1).min();
    above && last.first() < last.last()
}

/// The slope of the straight line that fits a series best (least squares), rounded.
pub(super) fn slope(series: &[(u64, u64)]) -> i64 {
    let (n, x0) = (series.len() as i128, series.first().map_or(0, |(x, _)| *x));
    let (mut x, mut y, mut xx, mut xy) = (0, 0, 0, 0);
    for (step, bytes) in series {
        // Steps in a capture may have any numbers.
        let (step, bytes) = (i128::from((step - x0).min(1 << 40)), i128::from(*bytes));
        x += step;
        y += bytes;
        xx += step * step;
        xy += step * bytes;
    }
    let (above, below) = (n * xy - x * y, n * xx - x * x);
    if below == 0 {
        return 0;
    }
    let half = if above < 0 { -below / 2 } else { below / 2 };
    i64::try_from((above + half) / below).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn series(of: impl Fn(u64) -> u64, steps: u64) -> Vec<(u64, u64)> {
        (1..=steps).map(|step| (step, of(step))).collect()
    }

    #[test]
    fn steps_stay_few_and_evenly_apart() {
        let mut points = Points::from(3);
        let mut taken = 0;
        for step in 1..=100_000 {
            taken += u32::from(points.take(step));
            points.thin();
        }
        assert!(points.steps.len() >= MOST / 2 && points.steps.len() < MOST);
        assert!(taken < 1000, "{taken}");
        let apart = |pair: &[u64]| pair[1] - pair[0];
        let all: Vec<u64> = points.steps.windows(2).map(apart).collect();
        assert!(all.iter().all(|apart| *apart == points.stride), "{all:?}");
        assert_eq!(points.steps[0], 3);
        assert_eq!(points.with(100_000).last(), Some(&100_000));
        assert!(Points::from(5).with(4).is_empty());
    }

    #[test]
    fn what_grows_is_told_from_what_fills_up_and_what_goes_up_and_down() {
        assert!(grows(&series(|step| 7 * step, 4)));
        assert!(grows(&series(|step| 7 * (step / 10), 60)), "now and then");
        assert!(
            grows(&series(|step| 7 * step.saturating_sub(30), 60)),
            "from the middle on"
        );
        assert!(!grows(&series(|step| 7 * step, 3)), "too few");
        assert!(
            !grows(&series(|step| 7 * step.min(10), 60)),
            "a ring buffer"
        );
        assert!(!grows(&series(|step| 7 * step.min(35), 60)), "a large one");
        assert!(!grows(&series(|step| 7 * (step % 20), 70)), "flushed");
        assert!(!grows(&series(|_| 7, 60)));
        assert!(
            !grows(&series(|step| step * 2_654_435_761 % 97, 60)),
            "at random"
        );
        assert!(!grows(&series(|step| 1000 - step, 60)));
    }

    #[test]
    fn the_slope_is_exact_where_growth_is_even() {
        assert_eq!(slope(&series(|step| 1_048_576 * step + 17, 50)), 1_048_576);
        assert_eq!(slope(&series(|step| 5000 - 3 * step, 50)), -3);
        assert_eq!(slope(&series(|_| 9, 50)), 0);
        assert_eq!(slope(&[(1, 5)]), 0);
        assert_eq!(slope(&[(1, 0), (u64::MAX, u64::MAX)]), 1 << 24);
    }
}
