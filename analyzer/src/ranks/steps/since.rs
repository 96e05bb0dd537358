//! The step since which a rank differs from its peers.

use schemars::JsonSchema;
use serde::Serialize;

use super::Steps;
use crate::ranks::robust::Spread;

/// Range of steps that contains the step in which a rank began to differ from its peers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Since {
    /// First step of the range, counted from 1. It is 1 if the rank may have differed before the first known step.
    pub first_step: u64,
    /// Last step of the range, counted from 1; equal to `first_step` if the step is known exactly.
    pub last_step: u64,
}

impl Since {
    /// Whether the range is one step.
    pub fn is_exact(&self) -> bool {
        self.first_step == self.last_step
    }
}

/// When a rank began to differ, and the step that proved it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Began {
    /// The range of steps in which the difference began.
    pub since: Since,
    /// The number of the last step that was needed.
    pub seen: u64,
}

/// Since when a rank differs from all of its peers, in the direction of `by`. The difference must become larger than
/// `least`. It began at the first step from which on the rank was farther off than the peers scatter.
pub fn since(of: &Steps, peers: &[&Steps], by: i64, least: u64) -> Option<Began> {
    let width = peers.iter().map(|steps| steps.width).max()?.max(of.width);
    let stride = usize::try_from(width).ok().filter(|width| *width > 0)?;
    let (mut began, mut known) = (None, None);
    for first in (of.from / width * width..of.ended).step_by(stride) {
        let mut figures: Vec<i64> = peers
            .iter()
            .filter_map(|steps| Some(steps.over(first, width)? as i64))
            .collect();
        let spread = Spread::of(&mut figures, 0).filter(|_| figures.len() > 1);
        let (Some(own), Some(spread)) = (of.over(first, width), spread) else {
            continue;
        };
        let known = *known.get_or_insert(first);
        let off = spread.off(own as i64);
        let off = off.filter(|off| off.signum() == by.signum());
        began = off.and(began.or(Some(first)));
        if let (Some(began), Some(off)) = (began, off)
            && off.unsigned_abs() > least
        {
            // It may have differed before the first known steps, too.
            let first_step = if began == known { 1 } else { began + 1 };
            return Some(Began {
                since: Since {
                    first_step,
                    last_step: began + width,
                },
                seen: first + width,
            });
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn steps(greatest: impl IntoIterator<Item = u64>) -> Steps {
        let mut steps = Steps::default();
        greatest.into_iter().for_each(|of| steps.end_step(of << 20));
        steps
    }

    fn range(found: Option<Began>) -> Option<(u64, u64)> {
        found.map(|began| (began.since.first_step, began.since.last_step))
    }

    #[test]
    fn the_step_is_named_at_which_a_leak_began() {
        let even = steps([100; 60]);
        let leak = steps((1..=60u64).map(|step| 100 + step.saturating_sub(39)));
        let peers = [&even, &leak, &even, &even];
        let found = since(&leak, &peers, 1, 2 << 20);
        assert_eq!(range(found), Some((40, 40)));
        // It is certain in the third step with more memory.
        assert_eq!(found.map(|began| began.seen), Some(42));
        assert_eq!(since(&even, &peers, 1, 2 << 20), None);
        assert_eq!(since(&leak, &peers, -1, 2 << 20), None);
    }

    #[test]
    fn a_difference_that_went_away_began_nothing() {
        let even = steps([100; 20]);
        let other = steps((1..=20).map(|step| match step {
            3 => 101,
            12.. => 164,
            _ => 100,
        }));
        let found = since(&other, &[&even, &even, &other], 1, 2 << 20);
        assert_eq!(range(found), Some((12, 12)));
    }

    #[test]
    fn of_long_runs_the_steps_are_named_between_which_it_began() {
        let even = steps([100; 1000]);
        let other = steps((0..1000).map(|step| if step < 500 { 100 } else { 200 }));
        let found = since(&other, &[&even, &even, &other], 1, 2 << 20);
        assert_eq!(range(found), Some((501, 504)));
    }

    #[test]
    fn runs_of_other_lengths_are_compared_where_both_have_steps() {
        let (long, short) = (steps([100; 1000]), steps([150; 10]));
        let found = since(&short, &[&long, &long, &short], 1, 2 << 20);
        assert_eq!(range(found), Some((1, 4)));
        assert_eq!(since(&steps([]), &[&long], 1, 2 << 20), None);
    }

    #[test]
    fn what_differs_in_the_first_known_steps_may_have_begun_before() {
        let even = steps([100; 60]);
        let mut late = Steps::default();
        late.skip(20);
        (20..60).for_each(|_| late.end_step(200 << 20));
        let peers = [&even, &even, &late];
        let found = since(&late, &peers, 1, 2 << 20);
        assert_eq!(range(found), Some((1, 21)));
        // Unknown steps do not count as steps with little memory.
        assert_eq!(since(&late, &peers, -1, 2 << 20), None);
    }
}
