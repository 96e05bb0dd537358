//! The ranks of a job together.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::Serialize;

use super::coordinates::{Coordinates, Mesh};
use super::endings::{End, Endings};
use super::figures::Figures;
use super::holders::Keys;
use super::outliers::{Outlier, outliers};
use super::peers::groups;
use super::robust::{RULE, Spread, least};

/// What is shown of a job.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Job {
    /// Version of this shape.
    pub schema: u32,
    /// How many ranks there are, by their launcher; `None`: it did not say.
    pub world_size: Option<u64>,
    /// Ranks whose captures are there.
    pub ranks: Vec<RankRow>,
    /// Ranks without a capture.
    pub missing_ranks: Vec<u64>,
    /// Other captures of a rank: child processes, and earlier starts of the job.
    pub spare: Vec<Spare>,
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
    /// How the ranks ended.
    pub endings: Endings,
}

/// One rank.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct RankRow {
    /// Its number; of captures that no launcher numbered the place among their names.
    pub rank: u64,
    /// Whether a launcher gave it that number.
    pub is_numbered: bool,
    /// Its capture.
    pub file: PathBuf,
    /// The machine's name.
    pub host: Option<String>,
    /// Its number among those on its machine.
    pub local_rank: Option<u64>,
    /// The number of its machine.
    pub node_rank: Option<u64>,
    /// How often its launcher had restarted the ranks.
    pub restarts: Option<u64>,
    /// Its process.
    pub pid: u32,
    /// Where it stands in the mesh.
    pub coordinates: Option<Coordinates>,
    /// The GPU on which it holds most.
    pub device: Option<u8>,
    /// That GPU's UUID.
    pub uuid: Option<String>,
    /// Memory of that GPU.
    pub card_bytes: Option<u64>,
    /// Other GPUs on which it holds memory: number, bytes.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub other_devices: Vec<(u8, u64)>,
    /// Peaks, each at its own moment.
    pub tensor_peak_bytes: u64,
    /// The same of PyTorch's allocator.
    pub reserved_peak_bytes: u64,
    /// The same of all that the process is known to hold.
    pub device_peak_bytes: u64,
    /// What NVML said beyond that.
    pub unexplained_bytes: Option<i64>,
    /// Steps that ended.
    pub steps: u64,
    /// How it ended.
    #[serde(flatten)]
    pub end: End,
    /// What its capture lacks; empty where its figures are exact.
    pub missing: Vec<String>,
}

/// Another capture of a rank.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Spare {
    /// The rank.
    pub rank: u64,
    /// The capture.
    pub file: PathBuf,
    /// Whether its process ended before the other one's began: an earlier start. If not, it is a child or a second job.
    pub is_earlier: bool,
}

/// What ranks should share, and do not.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Mixed {
    /// What it is.
    pub what: &'static str,
    /// Values and the ranks that have them, the value of most ranks first.
    pub values: Vec<(String, Vec<u64>)>,
}

/// Peers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
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
    /// Of the figures of all captures.
    ///
    /// # Errors
    /// If the mesh has another number of ranks than the job.
    pub fn of(
        all: Vec<Figures>,
        keys: &Keys,
        unreadable: Vec<String>,
        mesh: Option<&Mesh>,
    ) -> Result<Self, String> {
        let (mut ranks, spare) = one_each(all);
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
                of.coordinates = mesh.at(*rank);
            }
        }
        let is_missing = |rank: &u64| !ranks.contains_key(rank);
        let missing_ranks = (0..world_size.unwrap_or(0)).filter(is_missing).collect();
        let mut outlying = Vec::new();
        let mut compared = Vec::new();
        let at = ranks
            .iter()
            .map(|(rank, of)| (*rank, of.coordinates.clone().unwrap_or_default()));
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
            if let (Some(tensors), Some(device)) =
                (spread(|of| of.tensor_peak), spread(|of| of.device_peak))
            {
                compared.push(PeerGroup {
                    coordinates,
                    ranks: numbers,
                    tensors,
                    device,
                });
            }
        }
        // By rank, that with the largest differences first, and each one's in the metrics' order.
        let mut off: BTreeMap<u64, u64> = BTreeMap::new();
        for of in &outlying {
            *off.entry(of.rank).or_default() += of.off_bytes.unsigned_abs();
        }
        outlying
            .sort_by_key(|of: &Outlier| (Reverse(off.get(&of.rank).copied()), of.rank, of.metric));
        Ok(Self {
            schema: 1,
            world_size,
            missing_ranks,
            spare,
            unreadable,
            mixed: mixed(&ranks),
            rule: RULE,
            groups: compared,
            outliers: outlying,
            endings: Endings::of(ranks.iter().map(|(rank, of)| (*rank, &of.end))),
            ranks: ranks.into_iter().map(|(rank, of)| row(rank, of)).collect(),
        })
    }

    /// Whether the peaks of peers scatter so much that they may not be peers.
    pub fn has_wide_groups(&self) -> bool {
        self.groups.iter().any(|group| group.tensors.is_wide())
    }

    /// Whether each rank is there, and its figures are exact.
    pub fn is_whole(&self) -> bool {
        let exact = self.ranks.iter().all(|rank| rank.missing.is_empty());
        exact && self.missing_ranks.is_empty() && self.unreadable.is_empty()
    }
}

/// One capture for each rank: of several that with most tensors among the newest start's.
fn one_each(all: Vec<Figures>) -> (BTreeMap<u64, Figures>, Vec<Spare>) {
    let mut by_rank: BTreeMap<u64, Vec<Figures>> = BTreeMap::new();
    let is_numbered = all.iter().any(|of| of.rank.is_some());
    for (place, of) in all.into_iter().enumerate() {
        // Beside ranks, what has no number is a launcher or a tool: it is nobody's peer.
        match of.rank {
            None if is_numbered => {}
            rank => by_rank
                .entry(rank.unwrap_or(place as u64))
                .or_default()
                .push(of),
        }
    }
    let mut spare = Vec::new();
    let mut ranks = BTreeMap::new();
    for (rank, of) in by_rank {
        let newest = of.iter().map(|of| of.started_unix_ns).max().unwrap_or(0);
        let runs_then = |of: &Figures| of.end.at_unix_ns >= newest;
        let best = of.iter().max_by_key(|of| {
            (
                runs_then(of),
                of.tensor_peak,
                of.device_peak,
                of.started_unix_ns,
            )
        });
        let best = best.map(|best| (best.file.clone(), best.started_unix_ns));
        for of in of {
            match &best {
                Some((file, _)) if *file == of.file => {
                    ranks.insert(rank, of);
                }
                chosen => spare.push(Spare {
                    rank,
                    is_earlier: chosen
                        .as_ref()
                        .is_some_and(|(_, started)| of.end.at_unix_ns < *started),
                    file: of.file,
                }),
            }
        }
    }
    (ranks, spare)
}

fn mixed(ranks: &BTreeMap<u64, Figures>) -> Vec<Mixed> {
    let mut by_fact: Vec<(&'static str, BTreeMap<&str, Vec<u64>>)> = Vec::new();
    for (rank, of) in ranks {
        for (what, value) in &of.facts {
            let at = by_fact.iter().position(|(known, _)| known == what);
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
                .map(|(value, ranks)| (value.to_owned(), ranks))
                .collect();
            values.sort_by_key(|(_, ranks)| (Reverse(ranks.len()), ranks.first().copied()));
            Mixed { what, values }
        })
        .collect()
}

fn row(rank: u64, of: Figures) -> RankRow {
    RankRow {
        rank,
        is_numbered: of.rank.is_some(),
        file: of.file,
        host: of.host,
        local_rank: of.local_rank,
        node_rank: of.node_rank,
        restarts: of.restarts,
        pid: of.pid,
        coordinates: of.coordinates,
        device: of.device,
        uuid: of.uuid,
        card_bytes: of.card_bytes,
        other_devices: of.other_devices,
        tensor_peak_bytes: of.tensor_peak,
        reserved_peak_bytes: of.reserved_peak,
        device_peak_bytes: of.device_peak,
        unexplained_bytes: of.unexplained,
        steps: of.steps.ended,
        end: of.end,
        missing: of.missing,
    }
}
