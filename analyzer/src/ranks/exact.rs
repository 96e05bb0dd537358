//! The exact step since which a rank differs, if the first reading only finds a range of steps.
//!
//! A reading keeps a few hundred points of a run, so steps of longer runs are merged. For these runs, the captures of
//! the rank and of some of its peers are read again, and the needed steps are kept individually.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use gpumem_capture::DeviceOrdinal;

use super::figures::RankRow;
use super::job::Job;
use super::open::Open;
use super::outliers::Outlier;
use super::steps::{Steps, Window, since};

/// The maximum number of ranks to read again: those with the largest differences.
const RANKS: usize = 32;

/// The steps that must be read again from a rank's capture: see [`super::StepWatch::keeping`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Question {
    /// The rank.
    pub rank: u64,
    /// Its capture.
    pub file: PathBuf,
    /// The GPU.
    pub device: DeviceOrdinal,
    /// The steps.
    pub windows: Vec<Window>,
}

impl Job {
    /// The captures that must be read again for the steps since which ranks differ.
    pub fn questions(&self) -> Vec<Question> {
        let mut wanted: BTreeMap<u64, BTreeSet<Window>> = BTreeMap::new();
        for (rank, open) in open(&self.outliers) {
            for rank in open.peers.iter().chain([&rank]) {
                wanted.entry(*rank).or_default().insert(open.window);
            }
        }
        let row = |rank| {
            let at = self
                .ranks
                .binary_search_by_key(&rank, |row: &RankRow| row.rank);
            self.ranks.get(at.ok()?)
        };
        let questions = wanted.into_iter().filter_map(|(rank, windows)| {
            let row = row(rank)?;
            Some(Question {
                rank,
                file: row.file.clone(),
                device: DeviceOrdinal(row.device?),
                windows: windows.into_iter().collect(),
            })
        });
        questions.collect()
    }

    /// Applies what was read: for each question, the steps of its windows, in order. If a capture could not be read
    /// again or has evicted the steps, ranges remain.
    pub fn answer(&mut self, answers: &[(Question, Vec<Steps>)]) {
        let known: BTreeMap<(u64, Window), &Steps> = answers
            .iter()
            .flat_map(|(question, steps)| {
                let windows = question.windows.iter().zip(steps);
                windows.map(|(window, steps)| ((question.rank, *window), steps))
            })
            .collect();
        for of in self.outliers.iter_mut() {
            let Some(open) = of.open.take() else { continue };
            let Some(own) = known.get(&(of.rank, open.window)) else {
                continue;
            };
            let peers = open.peers.iter();
            let peers = peers.filter_map(|rank| known.get(&(*rank, open.window)));
            let peers: Vec<&Steps> = peers.chain([own]).copied().collect();
            let began = since(own, &peers, of.off_bytes, open.least);
            let Some(began) = began.filter(|began| began.since.is_exact()) else {
                continue;
            };
            // The result of all peers is more reliable: the one of a few peers must agree with it.
            let agrees = of.since.is_none_or(|range| {
                let width = range.last_step - range.first_step + 1;
                let first = range.first_step.saturating_sub(width);
                (first..=range.last_step).contains(&began.since.first_step)
            });
            if agrees {
                of.since = Some(began.since);
            }
        }
    }
}

fn open(outliers: &[Outlier]) -> impl Iterator<Item = (u64, &Open)> {
    let all = outliers.iter();
    all.filter_map(|of| Some((of.rank, of.open.as_ref()?)))
        .take(RANKS)
}

#[cfg(test)]
mod tests {
    use super::super::holders::Keys;
    use super::super::samples::figures;
    use super::super::steps::Since;
    use super::*;

    const MIB: u64 = 1 << 20;

    /// The memory of a rank in each of 1,000 steps: rank 3 has 1 MiB more from step 601 on.
    fn held(rank: u64) -> Vec<u64> {
        let more = |step: u64| {
            if rank == 3 {
                step.saturating_sub(600)
            } else {
                0
            }
        };
        (1..=1000).map(|step| (100 + more(step)) * MIB).collect()
    }

    /// A job of ten ranks, whose points contain four steps each.
    fn job() -> Job {
        let all = (0..10).map(|rank| {
            let of = held(rank);
            let points = of.chunks(4).filter_map(|of| of.iter().max().copied());
            let steps = Steps {
                width: 4,
                from: 0,
                greatest: points.collect(),
                ended: 1000,
            };
            figures(rank, of.iter().max().copied().unwrap_or(0), steps)
        });
        Job::of(all.collect(), &Keys::default(), Vec::new(), None).unwrap()
    }

    fn answered(job: &mut Job, answer: impl Fn(&Question, Window) -> Steps) -> Option<(u64, u64)> {
        let read = |question: Question| {
            let windows = question.windows.iter();
            let steps = windows.map(|window| answer(&question, *window)).collect();
            (question, steps)
        };
        let answers: Vec<_> = job.questions().into_iter().map(read).collect();
        job.answer(&answers);
        let [only] = &job.outliers[..] else {
            panic!("one rank differs")
        };
        only.since.map(|since| (since.first_step, since.last_step))
    }

    fn all(question: &Question, window: Window) -> Steps {
        let of = &held(question.rank)[window.from as usize..window.until as usize];
        Steps::each(window.from, of.to_vec())
    }

    #[test]
    fn the_step_is_found_by_some_peers() {
        let mut job = job();
        let before = job.outliers[0].since;
        assert_eq!(
            before,
            Some(Since {
                first_step: 601,
                last_step: 604
            })
        );
        let asked = job.questions();
        assert_eq!(asked.len(), 9);
        assert!(asked.iter().any(|question| question.rank == 3));
        // No step is read after the one that decided.
        assert!(asked.iter().all(|of| of.windows
            == [Window {
                from: 0,
                until: 604
            }]));
        assert_eq!(answered(&mut job, all), Some((601, 601)));
        assert!(job.questions().is_empty());
    }

    #[test]
    fn a_range_stays_where_steps_are_no_longer_there_or_say_otherwise() {
        let late = |question: &Question, window: Window| match question.rank {
            3 => Steps::each(603, held(3)[603..window.until as usize].to_vec()),
            _ => all(question, window),
        };
        assert_eq!(answered(&mut job(), late), Some((601, 604)));
        let other = |question: &Question, window: Window| match question.rank {
            3 => Steps::each(0, vec![300 * MIB; 604]),
            _ => all(question, window),
        };
        assert_eq!(answered(&mut job(), other), Some((601, 604)));
    }

    #[test]
    fn what_begins_in_the_last_steps_is_found() {
        let spike = |rank: u64| {
            let mut of = vec![100 * MIB; 1002];
            of[1001] += if rank == 3 { 50 * MIB } else { 0 };
            of
        };
        let all = (0..10).map(|rank| {
            let steps = Steps {
                width: 4,
                from: 0,
                greatest: vec![100 * MIB; 251],
                ended: 1002,
            };
            let most = spike(rank).iter().max().copied().unwrap_or(0);
            figures(rank, most, steps)
        });
        let mut job = Job::of(all.collect(), &Keys::default(), Vec::new(), None).unwrap();
        assert_eq!(job.outliers[0].since, None);
        let steps = |question: &Question, _: Window| Steps::each(0, spike(question.rank));
        assert_eq!(answered(&mut job, steps), Some((1002, 1002)));
    }
}
