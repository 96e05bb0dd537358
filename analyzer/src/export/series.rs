//! A figure over time with a bounded number of points, including its greatest value.

use gpumem_capture::Nanos;

/// A figure at a time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Point {
    /// When.
    pub time: Nanos,
    /// How much.
    pub value: u64,
}

/// Reduces a series: of each stretch of time, it keeps the greatest value and the last one, each with its own time.
/// So the greatest value of all is exact, and so is the value at the end of each stretch.
#[derive(Clone, Debug)]
pub struct Series {
    stretch: u64,
    /// The current stretch: its number, its greatest point, its last.
    now: Option<(u64, Point, Point)>,
}

impl Series {
    /// Stretches of this length, at least one nanosecond.
    pub fn new(stretch: Nanos) -> Self {
        Self {
            stretch: stretch.0.max(1),
            now: None,
        }
    }

    /// Adds a point. If a stretch ended, returns its points by time. A time before the last one counts as the last
    /// one.
    pub fn push(&mut self, point: Point) -> impl Iterator<Item = Point> + use<> {
        let mut done = None;
        let number = point.time.0 / self.stretch;
        self.now = Some(match self.now {
            Some((of, greatest, last)) if number <= of => {
                let time = point.time.max(last.time);
                let point = Point { time, ..point };
                let greatest = match point.value > greatest.value {
                    true => point,
                    false => greatest,
                };
                (of, greatest, point)
            }
            before => {
                done = before;
                (number, point, point)
            }
        });
        points(done)
    }

    /// The points of the last stretch.
    pub fn finish(&mut self) -> impl Iterator<Item = Point> + use<> {
        points(self.now.take())
    }
}

fn points(stretch: Option<(u64, Point, Point)>) -> impl Iterator<Item = Point> {
    let both = stretch.map(|(_, greatest, last)| (Some(greatest), Some(last)));
    let (greatest, last) = match both {
        // The greatest value is also the last one: one point is enough.
        Some((greatest, last)) if greatest == last => (None, last),
        Some(both) => both,
        None => (None, None),
    };
    greatest.into_iter().chain(last)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn thinned(stretch: u64, points: &[(u64, u64)]) -> Vec<(u64, u64)> {
        let mut series = Series::new(Nanos(stretch));
        let mut out = Vec::new();
        for (time, value) in points {
            let (time, value) = (Nanos(*time), *value);
            out.extend(series.push(Point { time, value }));
        }
        out.extend(series.finish());
        out.iter()
            .map(|point| (point.time.0, point.value))
            .collect()
    }

    #[test]
    fn each_stretch_keeps_its_greatest_and_its_last() {
        let points = [(0, 5), (1, 9), (2, 7), (3, 1), (10, 2), (11, 3), (35, 1)];
        let kept = [(1, 9), (3, 1), (11, 3), (35, 1)];
        assert_eq!(thinned(10, &points), kept);
        assert_eq!(thinned(10, &[]), []);
    }

    #[test]
    fn of_equal_values_the_first_is_the_greatest() {
        assert_eq!(thinned(10, &[(1, 4), (2, 4), (3, 0)]), [(1, 4), (3, 0)]);
    }

    #[test]
    fn time_never_goes_back() {
        let kept = thinned(10, &[(12, 1), (9, 8), (13, 2)]);
        assert_eq!(kept, [(12, 8), (13, 2)]);
    }

    #[test]
    fn however_many_come_few_are_kept() {
        let many: Vec<(u64, u64)> = (0..100_000).map(|time| (time, time % 977)).collect();
        let kept = thinned(1000, &many);
        assert!(kept.len() <= 200);
        assert_eq!(kept.iter().map(|(_, value)| *value).max(), Some(976));
    }
}
