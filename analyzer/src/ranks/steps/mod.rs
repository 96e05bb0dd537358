//! The memory of a rank in each step of its training.

mod since;
mod watch;

pub use since::{Since, since};
pub use watch::StepWatch;

/// The maximum number of points of a run. The points of longer runs contain several steps.
const MOST: usize = 256;

/// Steps from `from`, counted from 0, up to but not including `until`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Window {
    /// The first.
    pub from: u64,
    /// The one after the last.
    pub until: u64,
}

/// The peak of tensors in each step.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Steps {
    /// Steps in each point: a power of two.
    pub width: u64,
    /// Steps before this one, counted from 0, are not known, because a bounded capture has evicted them. A multiple
    /// of `width`.
    pub from: u64,
    /// The peak of each point. The last point may be incomplete.
    pub greatest: Vec<u64>,
    /// Steps that ended.
    pub ended: u64,
}

impl Steps {
    /// One point for each step, from step `from` on.
    pub fn each(from: u64, greatest: Vec<u64>) -> Self {
        Self {
            width: 1,
            from,
            ended: from + greatest.len() as u64,
            greatest,
        }
    }

    /// Points in any order: the first step of each, counted from 1, its number of steps, and its peak. All have the
    /// same number of steps, except the last one, which may have fewer.
    pub fn of_points(mut points: Vec<(u64, u64, u64)>) -> Self {
        points.sort_unstable();
        let from = points.first().map_or(0, |of| of.0.saturating_sub(1));
        Self {
            width: points.iter().map(|of| of.1).max().unwrap_or(0),
            from,
            ended: points
                .iter()
                .fold(from, |ended, of| ended.saturating_add(of.1)),
            greatest: points.into_iter().map(|of| of.2).collect(),
        }
    }

    /// A step with this peak ended.
    fn end_step(&mut self, greatest: u64) {
        self.width = self.width.max(1);
        while (self.ended - self.from) / self.width >= MOST as u64 {
            self.widen();
        }
        let at = ((self.ended - self.from) / self.width) as usize;
        match self.greatest.get_mut(at) {
            Some(point) => *point = greatest.max(*point),
            None => self.greatest.push(greatest),
        }
        self.ended += 1;
    }

    /// The first `steps` steps are not known.
    fn skip(&mut self, steps: u64) {
        self.from = steps;
        self.ended = steps;
    }

    fn widen(&mut self) {
        let half = self.width.max(1);
        self.width = half * 2;
        if !self.from.is_multiple_of(self.width) {
            self.from += half;
            self.greatest.drain(..1.min(self.greatest.len()));
        }
        let pairs = self.greatest.chunks(2);
        self.greatest = pairs
            .filter_map(|pair| pair.iter().max().copied())
            .collect();
    }

    /// The peak of the steps from `first` (counted from 0) up to `first + width`, if all of them ended and are known.
    /// `width` must be at least the width of the points.
    fn over(&self, first: u64, width: u64) -> Option<u64> {
        let first = first.checked_sub(self.from)?;
        let ended = self.ended.checked_sub(self.from)?;
        let within = first.checked_add(width)? <= ended
            && self.width > 0
            && width.is_multiple_of(self.width);
        let points = within
            .then(|| (first / self.width) as usize..((first + width) / self.width) as usize)?;
        self.greatest.get(points)?.iter().max().copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_runs_keep_few_points() {
        let mut steps = Steps::default();
        (0..1000).for_each(|step| steps.end_step(step));
        assert_eq!(
            (steps.width, steps.greatest.len(), steps.ended),
            (4, 250, 1000)
        );
        assert_eq!(steps.over(996, 4), Some(999));
        assert_eq!(steps.over(998, 2), None);
        assert_eq!(steps.over(1000, 4), None);
    }

    #[test]
    fn first_steps_that_are_not_known_stay_unknown() {
        let mut steps = Steps::default();
        steps.skip(1001);
        (1001..2000).for_each(|step| steps.end_step(step));
        assert_eq!((steps.width, steps.from, steps.ended), (4, 1004, 2000));
        assert_eq!(steps.over(1000, 4), None);
        assert_eq!(steps.over(1004, 4), Some(1007));
        assert_eq!(steps.over(1996, 4), Some(1999));
    }
}
