//! Ranks that differ from their peers.

use schemars::JsonSchema;
use serde::Serialize;

use super::differences::{Difference, Medians};
use super::figures::Figures;
use super::holders::{Keys, Of};
use super::open::Open;
use super::robust::{Spread, least, middle};
use super::steps::{Since, since};

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
    pub fn of(self, figures: &Figures) -> Option<i64> {
        let row = &figures.row;
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
    fn whole(self, figures: &Figures) -> u64 {
        let row = &figures.row;
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
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Outlier {
    /// Number of the rank.
    pub rank: u64,
    /// The figure that differs.
    pub metric: Metric,
    /// Value of the figure in this rank, in bytes.
    pub bytes: i64,
    /// `bytes` minus the median of the peers; negative: the rank has less.
    pub off_bytes: i64,
    /// Distribution of the figure in all peers, the rank included.
    pub peers: Spread,
    /// Number of ranks in `peers`, the rank included.
    pub peer_count: usize,
    /// Step in which the tensors of the rank began to differ; `None`: not known, or `metric` is not `tensors`.
    pub since: Option<Since>,
    /// The part of the captures that must be read again to find the exact step.
    #[serde(skip)]
    pub open: Option<Open>,
    /// Holders of memory that account for the difference, by kind and then by size: at most five of each kind, without
    /// those below a twentieth of `off_bytes`. Empty if there are no such holders.
    pub differences: Vec<Difference>,
}

/// Finds the outliers among peers by each metric, in no particular order.
pub fn outliers(peers: &[(u64, &Figures)], keys: &Keys) -> Vec<Outlier> {
    let all: Vec<&Figures> = peers.iter().map(|(_, figures)| *figures).collect();
    let mut medians = None;
    let mut found = Vec::new();
    for metric in Metric::ALL {
        let mut figures: Vec<i64> = all.iter().filter_map(|of| metric.of(of)).collect();
        let mut wholes: Vec<u64> = all.iter().map(|of| metric.whole(of)).collect();
        let least = least(middle(&mut wholes).unwrap_or(0));
        // Of two ranks, it is not known which one differs: the lower median makes it the one that has more.
        let Some(spread) = Spread::of(&mut figures, least) else {
            continue;
        };
        for (rank, of) in peers {
            let bytes = metric.of(of);
            let Some((bytes, off_bytes)) = bytes.and_then(|of| Some((of, spread.off(of)?))) else {
                continue;
            };
            let held = || all.iter().map(|of| &*of.held).collect::<Vec<_>>();
            let medians = medians.get_or_insert_with(|| Medians::of(&held()));
            let (since, open) = match metric {
                Metric::Tensors => began((*rank, of), peers, spread, off_bytes, least),
                _ => (None, None),
            };
            found.push(Outlier {
                rank: *rank,
                metric,
                bytes,
                off_bytes,
                peers: spread,
                peer_count: figures.len(),
                since,
                open,
                differences: medians.differences(&of.held, off_bytes, keys),
            });
        }
    }
    found
}

/// Since when the tensors of a rank differ, and the part to read again if that is not a single step.
fn began(
    (rank, of): (u64, &Figures),
    peers: &[(u64, &Figures)],
    spread: Spread,
    off: i64,
    least: u64,
) -> (Option<Since>, Option<Open>) {
    let steps: Vec<_> = peers.iter().map(|(_, figures)| &figures.steps).collect();
    let began = since(&of.steps, &steps, off, least);
    let is_exact = match began {
        Some(began) => began.since.is_exact(),
        // It may be in the last steps, which are too few for a point.
        None => steps.iter().all(|steps| steps.width <= 1),
    };
    let until = began.map_or(of.steps.ended, |began| began.seen);
    let mut nearest: Vec<(u64, u64)> = peers
        .iter()
        .filter(|(other, figures)| *other != rank && figures.steps.ended >= until)
        .filter_map(|(other, figures)| {
            let far = Metric::Tensors.of(figures)?.abs_diff(spread.median);
            Some((far, *other))
        })
        .collect();
    nearest.sort_unstable();
    let nearest = nearest.into_iter().map(|(_, rank)| rank);
    let open = (!is_exact).then(|| Open::new(until, nearest, least));
    (began.map(|began| began.since), open)
}

#[cfg(test)]
mod tests {
    use super::super::samples::figures;
    use super::super::steps::Steps;
    use super::*;

    const MIB: u64 = 1 << 20;

    #[test]
    fn what_nccl_has_more_is_one_difference() {
        let mut ranks: Vec<Figures> = (0..5)
            .map(|rank| figures(rank, 100 * MIB, Steps::default()))
            .collect();
        for of in &mut ranks {
            of.row.device_peak_bytes = 800 * MIB;
            of.row.nccl_bytes = 200 * MIB;
        }
        ranks[2].row.device_peak_bytes += 60 * MIB;
        ranks[2].row.nccl_bytes += 40 * MIB;
        ranks[2].row.symmetric_bytes = 20 * MIB;
        let peers: Vec<_> = (0..).zip(&ranks).collect();
        let found = outliers(&peers, &Keys::default());
        let found: Vec<_> = found
            .iter()
            .map(|of| (of.rank, of.metric, of.off_bytes >> 20))
            .collect();
        assert_eq!(found, [(2, Metric::Nccl, 60)]);
    }
}
