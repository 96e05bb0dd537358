//! The ranks of a job together.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::path::PathBuf;

use schemars::JsonSchema;
use serde::Serialize;

use super::clocks::{Clock, clocks};
use super::coordinates::{Coordinates, Mesh};
use super::course::Course;
use super::endings::{End, Endings};
use super::figures::{Figures, RankRow};
use super::heatmap::Heatmap;
use super::holders::{Keys, Text};
use super::outliers::{Outlier, outliers};
use super::peers::groups;
use super::robust::{RULE, Spread, least};

/// What is shown of a job.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Job {
    /// How many ranks there are, by their launcher; `None`: it did not say.
    pub world_size: Option<u64>,
    /// Ranks whose captures are there.
    pub ranks: Vec<RankRow>,
    /// Ranks without a capture.
    pub missing_ranks: Vec<u64>,
    /// Other captures of a rank: child processes, and earlier starts of the job.
    pub spare: Vec<Spare>,
    /// Captures without a rank, which are left out beside those with one.
    pub unranked: Unranked,
    /// Captures that could not be read, and why.
    pub unreadable: Vec<String>,
    /// What ranks of one job should share, and do not.
    pub mixed: Vec<Mixed>,
    /// When a rank differs, in words.
    pub rule: &'static str,
    /// Ranks that are compared with one another.
    pub groups: Vec<PeerGroup>,
    /// What ranks differ by from their peers: the rank with the largest differences first.
    pub outliers: Vec<Outlier>,
    /// Machines whose clocks are off: times are compared as if they were not.
    pub clocks: Vec<Clock>,
    /// How the ranks ended.
    pub endings: Endings,
    /// When the first of them began, in nanoseconds since 1970-01-01 UTC.
    #[serde(skip)]
    pub started_unix_ns: u64,
    /// The course of each rank, in their order; empty if no picture was requested.
    #[serde(skip)]
    pub courses: Vec<Course>,
}

/// Another capture of a rank.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Spare {
    /// The rank.
    pub rank: u64,
    /// The capture.
    pub file: PathBuf,
    /// Whether its process ended before the other one's began: an earlier start. If not, it is a child or a second job.
    pub is_earlier: bool,
}

/// Captures without a rank: of a launcher or a tool.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Unranked {
    /// How many.
    pub captures: u64,
    /// The first ones by name.
    pub first: Vec<PathBuf>,
}

/// How many captures without a rank are named.
const NAMED: usize = 8;

/// What ranks should share, and do not.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Mixed {
    /// What it is.
    pub what: Text,
    /// Values and the ranks that have them, the value of most ranks first.
    pub values: Vec<(Text, Vec<u64>)>,
}

/// Peers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct PeerGroup {
    /// The coordinates that they share; empty: all ranks.
    pub coordinates: Coordinates,
    /// Who they are.
    pub ranks: Vec<u64>,
    /// Their greatest memory of tensors.
    pub tensors: Spread,
    /// What they hold in all at most.
    pub device: Spread,
}

impl Job {
    /// From the figures of all captures.
    ///
    /// # Errors
    /// If the number of ranks in the mesh differs from the job's.
    pub fn of(
        all: Vec<Figures>,
        keys: &Keys,
        unreadable: Vec<String>,
        mesh: Option<&Mesh>,
    ) -> Result<Self, String> {
        let (mut ranks, spare, unranked) = one_each(all);
        let worlds = ranks.values().filter_map(|of| of.world_size);
        let world_size = worlds.max();
        if let Some(mesh) = mesh {
            let known = world_size.or_else(|| ranks.keys().max().map(|last| last + 1));
            if known.is_some_and(|known| known != mesh.size()) {
                return Err(format!(
                    "--mesh has {} ranks, the job {}",
                    mesh.size(),
                    known.unwrap_or(0)
                ));
            }
            for (rank, of) in &mut ranks {
                of.row.coordinates = mesh.at(*rank);
            }
        }
        let is_missing = |rank: &u64| !ranks.contains_key(rank);
        let missing_ranks = (0..world_size.unwrap_or(0)).filter(is_missing).collect();
        let mut outlying = Vec::new();
        let mut compared = Vec::new();
        let at = ranks
            .iter()
            .map(|(rank, of)| (*rank, of.row.coordinates.clone().unwrap_or_default()));
        for (coordinates, numbers) in groups(&at.collect::<Vec<_>>()) {
            let peers: Vec<(u64, &Figures)> = numbers
                .iter()
                .filter_map(|rank| Some((*rank, ranks.get(rank)?)))
                .collect();
            outlying.extend(outliers(&peers, keys));
            let spread = |of: fn(&Figures) -> u64| {
                let mut figures: Vec<i64> = peers
                    .iter()
                    .map(|(_, figures)| of(figures) as i64)
                    .collect();
                Spread::of(&mut figures, least(0))
            };
            if let (Some(tensors), Some(device)) = (
                spread(|of| of.row.tensor_peak_bytes),
                spread(|of| of.row.device_peak_bytes),
            ) {
                compared.push(PeerGroup {
                    coordinates,
                    ranks: numbers,
                    tensors,
                    device,
                });
            }
        }
        // The rank with the largest differences first; for each rank, in the order of metrics.
        let mut off: BTreeMap<u64, u64> = BTreeMap::new();
        for of in &outlying {
            *off.entry(of.rank).or_default() += of.off_bytes.unsigned_abs();
        }
        outlying
            .sort_by_key(|of: &Outlier| (Reverse(off.get(&of.rank).copied()), of.rank, of.metric));
        let clocks = clocks(compared.iter().map(|group| {
            let peers = group.ranks.iter().filter_map(|rank| ranks.get(rank));
            let on = peers.map(|of| (of.row.host.as_deref().unwrap_or(""), &of.drawn.step_ends));
            on.collect()
        }));
        let ends: Vec<(u64, End)> = ranks
            .iter()
            .map(|(rank, of)| (*rank, of.row.end.by_clocks(of.row.host.as_deref(), &clocks)))
            .collect();
        Ok(Self {
            world_size,
            missing_ranks,
            spare,
            unranked,
            unreadable,
            mixed: mixed(&ranks),
            rule: RULE,
            groups: compared,
            outliers: outlying,
            clocks,
            endings: Endings::of(ends.iter().map(|(rank, end)| (*rank, end))),
            started_unix_ns: ranks
                .values()
                .map(|of| of.started_unix_ns)
                .min()
                .unwrap_or(0),
            courses: ranks
                .values_mut()
                .map(|of| std::mem::take(&mut of.drawn.course))
                .collect(),
            ranks: ranks.into_values().map(|of| of.row).collect(),
        })
    }

    /// The memory of each rank over time, with a maximum number of columns.
    pub fn heatmap(&self, most: usize) -> Heatmap {
        let rows = self.ranks.iter().zip(&self.courses);
        let rows = rows.map(|(row, course)| (row.rank, row.host.as_deref(), course));
        Heatmap::of(rows, &self.clocks, most)
    }

    /// Whether the peaks of a group scatter so much that its ranks may not be peers.
    pub fn has_wide_groups(&self) -> bool {
        self.groups.iter().any(|group| group.tensors.is_wide())
    }

    /// Whether no rank is missing and all figures are exact.
    pub fn is_whole(&self) -> bool {
        let exact = self.ranks.iter().all(|rank| rank.missing.is_empty());
        exact && self.missing_ranks.is_empty() && self.unreadable.is_empty()
    }
}

/// One capture for each rank: of several captures since the newest start, the one with most tensors.
fn one_each(all: Vec<Figures>) -> (BTreeMap<u64, Figures>, Vec<Spare>, Unranked) {
    let mut unranked = Unranked::default();
    let mut by_rank: BTreeMap<u64, Vec<Figures>> = BTreeMap::new();
    let is_numbered = all.iter().any(|of| of.row.is_numbered);
    for (place, mut of) in all.into_iter().enumerate() {
        // If other captures have ranks, one without a rank is from a launcher or a tool and has no peers.
        if is_numbered && !of.row.is_numbered {
            unranked.captures += 1;
            if unranked.first.len() < NAMED {
                unranked.first.push(of.row.file);
            }
            continue;
        }
        if !is_numbered {
            of.row.rank = place as u64;
        }
        by_rank.entry(of.row.rank).or_default().push(of);
    }
    let (mut ranks, mut spare) = (BTreeMap::new(), Vec::new());
    for (rank, mut of) in by_rank {
        let newest = of.iter().map(|of| of.started_unix_ns).max().unwrap_or(0);
        let best = |of: &Figures| {
            let runs_then = of.row.end.at_unix_ns >= newest;
            let held = (of.row.tensor_peak_bytes, of.row.device_peak_bytes);
            (runs_then, held, of.started_unix_ns)
        };
        of.sort_by_key(best);
        let Some(chosen) = of.pop() else { continue };
        spare.extend(of.into_iter().map(|other| Spare {
            rank,
            is_earlier: other.row.end.at_unix_ns < chosen.started_unix_ns,
            file: other.row.file,
        }));
        ranks.insert(rank, chosen);
    }
    (ranks, spare, unranked)
}

fn mixed(ranks: &BTreeMap<u64, Figures>) -> Vec<Mixed> {
    let mut by_fact: Vec<(&Text, BTreeMap<&Text, Vec<u64>>)> = Vec::new();
    for (rank, of) in ranks {
        for (what, value) in &of.facts {
            let at = by_fact.iter().position(|(known, _)| *known == what);
            let at = at.unwrap_or_else(|| {
                by_fact.push((what, BTreeMap::new()));
                by_fact.len() - 1
            });
            if let Some((_, values)) = by_fact.get_mut(at) {
                values.entry(value).or_default().push(*rank);
            }
        }
    }
    let several = by_fact.into_iter().filter(|(_, values)| values.len() > 1);
    several
        .map(|(what, values)| {
            let values = values.into_iter();
            let mut values: Vec<_> = values
                .map(|(value, ranks)| (Text::clone(value), ranks))
                .collect();
            values.sort_by_key(|(_, ranks)| (Reverse(ranks.len()), ranks.first().copied()));
            let what = Text::clone(what);
            Mixed { what, values }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::super::samples::figures;
    use super::super::steps::Steps;
    use super::*;

    fn job(change: impl Fn(&mut Figures)) -> Job {
        let ranks = (0..10).map(|rank| {
            let mut of = figures(rank, 0, Steps::default());
            change(&mut of);
            of
        });
        Job::of(ranks.collect(), &Keys::default(), Vec::new(), None).unwrap()
    }

    #[test]
    fn what_a_rank_does_not_have_is_no_other_version() {
        let found = job(|of| {
            let version = if of.row.rank == 7 { "9.2" } else { "9.1" };
            of.facts.push(("libcudnn".into(), version.into()));
            if of.row.rank == 3 {
                of.facts.push(("libnccl".into(), "2.27".into()));
            }
        });
        let [mixed] = &found.mixed[..] else {
            panic!("{:?}", found.mixed)
        };
        let values: Vec<_> = mixed
            .values
            .iter()
            .map(|(value, of)| (&**value, of))
            .collect();
        assert_eq!(&*mixed.what, "libcudnn");
        assert_eq!(values[1], ("9.2", &vec![7]));
        assert_eq!((values[0].0, values[0].1.len()), ("9.1", 9));
    }

    #[test]
    fn captures_without_a_rank_are_counted_beside_ranks_and_are_ranks_alone() {
        let found = job(|of| of.row.is_numbered = of.row.rank > 8);
        assert_eq!((found.ranks.len(), found.unranked.captures), (1, 9));
        let first: Vec<PathBuf> = (0..8)
            .map(|rank| format!("report.rank{rank}.bin").into())
            .collect();
        assert_eq!(found.unranked.first, first);
        let found = job(|of| of.row.is_numbered = false);
        assert_eq!((found.ranks.len(), found.unranked.captures), (10, 0));
    }
}
