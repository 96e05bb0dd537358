//! Which ranks differ from their peers, and in which figure: the only rule, for captures that ended and that grow.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Serialize;

use super::figures::RankRow;
use super::holders::Of;
use super::peers::groups;
use super::robust::{Spread, least, middle};

/// Figure by which ranks are compared. The figures do not overlap, so one cause shows as one difference.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Metric {
    /// Peak of tensors.
    Tensors,
    /// Peak of memory reserved by PyTorch's allocator, minus the peak of tensors.
    Cache,
    /// Memory of NCCL, and symmetric memory, at the driver level's peak.
    Nccl,
    /// Peak of the process, minus that of memory reserved by PyTorch's allocator and minus `nccl`: contexts, kernels,
    /// libraries.
    Outside,
    /// NVML's figure of the process, minus the explained bytes, at a reading of NVML.
    Unexplained,
}

impl Metric {
    /// All metrics.
    pub const ALL: [Self; 5] = [
        Self::Tensors,
        Self::Cache,
        Self::Nccl,
        Self::Outside,
        Self::Unexplained,
    ];

    /// The figure of a rank; `None` if it has none.
    pub fn of(self, row: &RankRow) -> Option<i64> {
        let beyond = |most: u64, of: u64| most.saturating_sub(of) as i64;
        let (tensors, reserved) = (row.tensor_peak_bytes, row.reserved_peak_bytes);
        let nccl = row.nccl_bytes.saturating_add(row.symmetric_bytes);
        match self {
            Self::Tensors => Some(tensors as i64),
            Self::Cache => Some(beyond(reserved, tensors)),
            Self::Nccl => Some(nccl as i64),
            Self::Outside => Some(beyond(row.device_peak_bytes, reserved.saturating_add(nccl))),
            Self::Unexplained => row.unexplained_bytes,
        }
    }

    /// The memory that includes the figure; the minimum difference is relative to it.
    fn whole(self, row: &RankRow) -> u64 {
        match self {
            Self::Tensors => row.tensor_peak_bytes,
            Self::Cache => row.reserved_peak_bytes,
            Self::Nccl | Self::Outside | Self::Unexplained => row.device_peak_bytes,
        }
    }

    /// Whether the memory of a kind of holders is part of the figure.
    pub fn has(self, of: Of) -> bool {
        match self {
            Self::Tensors => matches!(of, Of::Line | Of::Category | Of::Module),
            Self::Cache => of == Of::Pool,
            Self::Nccl => matches!(of, Of::Nccl | Of::Symmetric),
            Self::Outside => of == Of::Outside,
            Self::Unexplained => false,
        }
    }

    /// The name for programs.
    pub fn name(self) -> &'static str {
        match self {
            Self::Tensors => "tensors",
            Self::Cache => "cache",
            Self::Nccl => "nccl",
            Self::Outside => "outside",
            Self::Unexplained => "unexplained",
        }
    }

    /// The label.
    pub fn word(self) -> &'static str {
        match self {
            Self::Tensors => "tensors",
            Self::Cache => "PyTorch's cache",
            Self::Nccl => "NCCL",
            Self::Outside => "outside PyTorch",
            Self::Unexplained => "unexplained",
        }
    }
}

/// A figure in which a rank differs from its peers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Differs {
    /// The index of its row.
    pub at: usize,
    /// The figure.
    pub metric: Metric,
    /// Its value.
    pub bytes: i64,
    /// Its distance from the peers' median.
    pub off_bytes: i64,
    /// The distribution of the figure in all peers, the rank included.
    pub peers: Spread,
    /// The number of peers, the rank included.
    pub peer_count: usize,
    /// The distance below which nothing differs.
    pub(super) least: u64,
}

/// The captures of a job that differ from their peers. Of several captures of a rank, the one with most memory is
/// compared: the others come from its child processes. Without ranks, all captures are peers.
pub fn differing(rows: &[&RankRow]) -> Vec<Differs> {
    let is_numbered = rows.iter().any(|row| row.is_numbered);
    let mut one_each: BTreeMap<u64, (usize, &RankRow)> = BTreeMap::new();
    for (at, row) in rows.iter().enumerate() {
        let rank = match (is_numbered, row.is_numbered) {
            (true, false) => continue,
            (true, true) => row.rank,
            (false, _) => at as u64,
        };
        let held = |row: &RankRow| (row.tensor_peak_bytes, row.device_peak_bytes);
        let other = one_each.entry(rank).or_insert((at, row));
        if held(row) > held(other.1) {
            *other = (at, row);
        }
    }
    let places = one_each
        .iter()
        .map(|(rank, (_, row))| (*rank, row.coordinates.clone().unwrap_or_default()));
    let groups = groups(&places.collect::<Vec<_>>());
    let differing = groups.into_values().flat_map(|ranks| {
        let peers = ranks.iter().filter_map(|rank| one_each.get(rank).copied());
        let (places, rows): (Vec<usize>, Vec<&RankRow>) = peers.unzip();
        let found = distances(&rows).into_iter();
        found.filter_map(move |of| {
            Some(Differs {
                at: *places.get(of.at)?,
                ..of
            })
        })
    });
    differing.collect()
}

/// The peers that differ from the others, by each metric.
pub(super) fn distances(peers: &[&RankRow]) -> Vec<Differs> {
    let mut found = Vec::new();
    for metric in Metric::ALL {
        let mut figures: Vec<i64> = peers.iter().filter_map(|of| metric.of(of)).collect();
        let mut wholes: Vec<u64> = peers.iter().map(|of| metric.whole(of)).collect();
        let least = least(middle(&mut wholes).unwrap_or(0));
        // Of two ranks, it is not known which one differs: the lower median makes it the one that has more.
        let Some(spread) = Spread::of(&mut figures, least) else {
            continue;
        };
        for (at, of) in peers.iter().enumerate() {
            let bytes = metric.of(of);
            if let Some((bytes, off_bytes)) = bytes.and_then(|of| Some((of, spread.off(of)?))) {
                found.push(Differs {
                    at,
                    metric,
                    bytes,
                    off_bytes,
                    peers: spread,
                    peer_count: figures.len(),
                    least,
                });
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    fn row(rank: Option<u64>, tensors: u64) -> RankRow {
        RankRow {
            rank: rank.unwrap_or(0),
            is_numbered: rank.is_some(),
            tensor_peak_bytes: tensors,
            reserved_peak_bytes: tensors,
            device_peak_bytes: tensors,
            ..RankRow::default()
        }
    }

    fn off(rows: &[RankRow]) -> Vec<(usize, i64)> {
        let found = differing(&rows.iter().collect::<Vec<_>>());
        found.iter().map(|of| (of.at, of.off_bytes)).collect()
    }

    #[test]
    fn a_rank_that_holds_more_differs_and_its_child_and_what_has_no_rank_do_not() {
        let rows = [
            row(Some(0), 100 * MIB),
            row(Some(0), MIB),
            row(Some(1), 101 * MIB),
            row(Some(2), 140 * MIB),
            row(None, MIB),
        ];
        assert_eq!(off(&rows), [(3, 39 * MIB as i64)]);
    }

    #[test]
    fn without_ranks_all_captures_are_peers() {
        let rows = [100, 100, 50].map(|mib| row(None, mib * MIB));
        assert_eq!(off(&rows), [(2, -50 * MIB as i64)]);
    }
}
