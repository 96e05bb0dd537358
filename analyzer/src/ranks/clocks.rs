//! Machines with wrong clocks, found from steps that peers end at the same time.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Serialize;

use super::robust::{Spread, middle};
use super::step_ends::StepEnds;

/// The minimum number of steps that two machines must share.
const STEPS: usize = 4;
/// The minimum difference that counts: a millisecond.
const LEAST: u64 = 1_000_000;

/// A machine whose clock differs from those of the peers of its ranks.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Clock {
    /// Host name of the machine.
    pub host: String,
    /// Median of the differences, in nanoseconds, between the step ends of the machine's ranks and the median step
    /// ends of their peers. Negative: the clock is behind.
    pub ahead_ns: i64,
    /// Median distance of these differences from `ahead_ns`, in nanoseconds.
    pub scatter_ns: u64,
    /// Number of steps whose ends were compared.
    pub steps: usize,
}

/// A rank's machine and the ends of its steps.
pub type EndsOn<'a> = (&'a str, &'a StepEnds);

/// Machines whose clocks differ by more than the ends of their steps scatter. The ranks of each group are peers,
/// whose steps end at the same time. This is not true of different stages of a pipeline.
pub fn clocks<'a>(groups: impl Iterator<Item = Vec<EndsOn<'a>>>) -> Vec<Clock> {
    let mut off: BTreeMap<&str, Vec<(u64, i64)>> = BTreeMap::new();
    for group in groups {
        let first = group.first().map(|(host, _)| *host);
        // Peers on one machine do not show whether its clock is right.
        if group.iter().all(|(host, _)| Some(*host) == first) {
            continue;
        }
        let mut by_step: BTreeMap<u64, Vec<(&str, u64)>> = BTreeMap::new();
        for (host, ends) in &group {
            for (step, at) in ends.all() {
                by_step.entry(*step).or_default().push((host, *at));
            }
        }
        // If few ranks reached a step, its median is not the group's.
        by_step.retain(|_, ends| ends.len() * 2 > group.len());
        for (step, ends) in by_step {
            let mut all: Vec<u64> = ends.iter().map(|(_, at)| *at).collect();
            let Some(median) = middle(&mut all) else {
                continue;
            };
            for (host, at) in ends {
                let ahead = i128::from(at) - i128::from(median);
                let ahead = ahead.clamp(i64::MIN.into(), i64::MAX.into()) as i64;
                off.entry(host).or_default().push((step, ahead));
            }
        }
    }
    let clocks = off.into_iter().filter_map(|(host, of)| {
        let mut steps: Vec<u64> = of.iter().map(|(step, _)| *step).collect();
        steps.sort_unstable();
        steps.dedup();
        let mut figures: Vec<i64> = of.into_iter().map(|(_, ahead)| ahead).collect();
        let spread = Spread::of(&mut figures, LEAST).filter(|_| steps.len() >= STEPS)?;
        let by = spread.median.unsigned_abs();
        // The ranks and steps of a machine must agree, too: all use the same clock.
        let near = figures
            .iter()
            .filter(|of| of.abs_diff(spread.median) <= by / 2);
        let is_off = by > spread.threshold && near.count() * 4 >= figures.len() * 3;
        is_off.then(|| Clock {
            host: host.to_owned(),
            ahead_ns: spread.median,
            scatter_ns: spread.deviation,
            steps: steps.len(),
        })
    });
    clocks.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: i64 = 1_000_000_000;
    const START: i64 = 1_790_000_000 * SECOND;

    /// Steps of a second on a machine whose clock is ahead by `ahead`, each off by `jitter` of its number.
    fn ends(steps: u64, ahead: i64, jitter: impl Fn(i64) -> i64) -> StepEnds {
        let mut ends = StepEnds::default();
        for step in 1..=steps {
            let at = START + step as i64 * SECOND + ahead + jitter(step as i64);
            ends.end_step(step, at as u64);
        }
        ends
    }

    #[test]
    fn a_planted_offset_is_found_to_within_the_jitter() {
        let jitter = |seed: i64| move |step: i64| (step * 7919 + seed * 104_729) % 400_000;
        let all: Vec<_> = (0..16)
            .map(|rank| {
                let ahead = if rank / 4 == 2 { -3 * SECOND } else { 0 };
                (
                    ["a", "b", "c", "d"][rank as usize / 4],
                    ends(300, ahead, jitter(rank)),
                )
            })
            .collect();
        let group = || {
            all.iter()
                .map(|(host, ends)| (*host, ends))
                .collect::<Vec<_>>()
        };
        let found = clocks(std::iter::once(group()));
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].host, "c");
        assert!(
            (found[0].ahead_ns + 3 * SECOND).abs() < 400_000,
            "{found:?}"
        );
        assert!(found[0].steps >= 32 && found[0].scatter_ns < 400_000);
    }

    #[test]
    fn what_scatters_by_as_much_is_no_offset() {
        let wild = ends(40, 0, |step| step * step * 77_777_777 % (2 * SECOND));
        let even = ends(40, 0, |_| 0);
        let group = vec![("a", &even), ("a", &even), ("a", &even), ("b", &wild)];
        assert_eq!(clocks(std::iter::once(group)), []);
        let (short, off) = (ends(3, 0, |_| 0), ends(3, SECOND, |_| 0));
        let group = vec![("a", &short), ("a", &short), ("b", &off)];
        assert_eq!(clocks(std::iter::once(group)), []);
    }

    #[test]
    fn ranks_of_one_machine_must_agree() {
        let (even, ahead, behind) = (
            ends(40, 0, |_| 0),
            ends(40, SECOND, |_| 0),
            ends(40, -SECOND, |_| 0),
        );
        let group = |of| vec![("a", &even), ("b", &even), ("c", of)];
        assert_eq!(clocks([group(&ahead), group(&ahead)].into_iter()).len(), 1);
        assert_eq!(clocks([group(&ahead), group(&behind)].into_iter()), []);
    }

    #[test]
    fn stages_on_machines_of_their_own_are_not_compared() {
        let (first, last) = (ends(20, 0, |_| 0), ends(20, SECOND / 5, |_| 0));
        let stages = [
            vec![("a", &first), ("a", &first)],
            vec![("b", &last), ("b", &last)],
        ];
        assert_eq!(clocks(stages.clone().into_iter()), []);
        let [a, b] = stages;
        let found = clocks(std::iter::once([a, b].concat()));
        assert_eq!((found.len(), found[0].ahead_ns), (1, SECOND / 5));
    }
}
