//! All ranks of a job.

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
use crate::source::Readable;

/// A distributed job: its ranks, and the ranks that differ from their peers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Job {
    /// Number of ranks in the job, from the launcher; `None`: no capture has it.
    pub world_size: Option<u64>,
    /// Ranks with a capture, by number.
    pub ranks: Vec<RankRow>,
    /// Numbers of the ranks below `world_size` that have no capture; empty if no rank is missing or `world_size` is
    /// not known.
    pub missing_ranks: Vec<u64>,
    /// Further captures of ranks, which are not compared: earlier starts of the job, and other processes of the rank.
    pub spare: Vec<Spare>,
    /// Captures without a rank that were left out because other captures have a rank.
    pub unranked: Unranked,
    /// Captures that could not be read, each with the reason; empty if all could be read.
    pub unreadable: Vec<String>,
    /// Versions and settings that all ranks should share and do not; empty if there are no differences.
    pub mixed: Vec<Mixed>,
    /// The rule by which a rank counts as different, as a sentence.
    pub rule: &'static str,
    /// Groups of peers: the ranks that are compared with one another.
    pub groups: Vec<PeerGroup>,
    /// Figures in which a rank differs from its peers, the rank with the largest sum of differences first; empty if no
    /// rank differs.
    pub outliers: Vec<Outlier>,
    /// Machines with wrong clocks; empty if none was found. Their offsets are corrected in `endings` and in timelines.
    pub clocks: Vec<Clock>,
    /// How the ranks ended.
    pub endings: Endings,
    /// The source files that may be read.
    #[serde(skip)]
    pub source: Readable,
    /// The memory of each rank over time, in the order of the ranks; empty if no picture was requested.
    #[serde(skip)]
    pub courses: Vec<Course>,
}

/// A capture of a rank that is not compared, because another capture of this rank is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Spare {
    /// Number of the rank.
    pub rank: u64,
    /// Path of the capture.
    pub file: PathBuf,
    /// Whether its process ended before that of the compared capture started: an earlier start of the job. If not, it
    /// is a child process or a second job.
    pub is_earlier: bool,
}

/// Captures without a rank that were left out because other captures have one: those of a launcher or a tool.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Unranked {
    /// Number of these captures.
    pub captures: u64,
    /// Paths of the first eight of them by name; empty if there are no such captures.
    pub first: Vec<PathBuf>,
}

/// The maximum number of captures without a rank that are named.
const NAMED: usize = 8;

/// A version or setting that differs between the ranks.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Mixed {
    /// Name of the version or setting, such as `PyTorch`, `allocator settings` or `libnccl`.
    pub what: Text,
    /// Pairs of a value and the numbers of the ranks that have it, the value of most ranks first.
    pub values: Vec<(Text, Vec<u64>)>,
}

/// Ranks that are compared with one another.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct PeerGroup {
    /// Coordinates that all ranks of the group share; empty if the group has no dimension in common, as when all ranks
    /// are peers.
    pub coordinates: Coordinates,
    /// Numbers of the ranks.
    pub ranks: Vec<u64>,
    /// Distribution of their `tensor_peak_bytes`.
    pub tensors: Spread,
    /// Distribution of their `device_peak_bytes`.
    pub device: Spread,
}

impl Job {
    /// Compares the figures of all captures.
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
            source: Readable::of_all(ranks.values().map(|of| &of.source)),
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

    /// Whether the peaks of tensors in a group scatter so much that its ranks may not be peers.
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
