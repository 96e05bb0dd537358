//! Ranks that differ from their peers.

use serde::Serialize;

use super::differences::{Difference, Medians};
use super::figures::Figures;
use super::holders::Keys;
use super::robust::{Spread, least, middle};
use super::steps::{Since, since};

/// A figure by which ranks are compared. They are parts of what a process holds, so that one cause is one difference.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Metric {
    /// The greatest memory of tensors.
    Tensors,
    /// What PyTorch's allocator held at most beyond that.
    Cache,
    /// What the process held at most beyond PyTorch's allocator: contexts, kernels, libraries.
    Outside,
    /// What NVML saw beyond all that.
    Unexplained,
}

impl Metric {
    /// All.
    pub const ALL: [Self; 4] = [Self::Tensors, Self::Cache, Self::Outside, Self::Unexplained];

    /// The figure of a rank; `None`: it has none.
    pub fn of(self, figures: &Figures) -> Option<i64> {
        let row = &figures.row;
        let beyond = |most: u64, of: u64| most.saturating_sub(of) as i64;
        let (tensors, reserved) = (row.tensor_peak_bytes, row.reserved_peak_bytes);
        match self {
            Self::Tensors => Some(tensors as i64),
            Self::Cache => Some(beyond(reserved, tensors)),
            Self::Outside => Some(beyond(row.device_peak_bytes, reserved)),
            Self::Unexplained => row.unexplained_bytes,
        }
    }

    /// What a difference is measured by: all that holds such memory.
    fn whole(self, figures: &Figures) -> u64 {
        let row = &figures.row;
        match self {
            Self::Tensors => row.tensor_peak_bytes,
            Self::Cache => row.reserved_peak_bytes,
            Self::Outside | Self::Unexplained => row.device_peak_bytes,
        }
    }

    /// As people read it.
    pub fn word(self) -> &'static str {
        match self {
            Self::Tensors => "tensors",
            Self::Cache => "PyTorch's cache",
            Self::Outside => "outside PyTorch",
            Self::Unexplained => "unexplained",
        }
    }
}

/// A rank that differs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Outlier {
    /// Which.
    pub rank: u64,
    /// By what.
    pub metric: Metric,
    /// Its figure.
    pub bytes: i64,
    /// By how much it has more than its peers' median.
    pub off_bytes: i64,
    /// Its peers' figures, its own among them.
    pub peers: Spread,
    /// How many they are.
    pub peer_count: usize,
    /// The step at which its tensors began to differ, where steps were marked and they did.
    pub since: Option<Since>,
    /// What makes the difference.
    pub differences: Vec<Difference>,
}

/// Those that differ among peers, by each metric, in no particular order.
pub fn outliers(peers: &[(u64, &Figures)], keys: &Keys) -> Vec<Outlier> {
    let all: Vec<&Figures> = peers.iter().map(|(_, figures)| *figures).collect();
    let mut medians = None;
    let mut found = Vec::new();
    for metric in Metric::ALL {
        let mut figures: Vec<i64> = all.iter().filter_map(|of| metric.of(of)).collect();
        let mut wholes: Vec<u64> = all.iter().map(|of| metric.whole(of)).collect();
        let least = least(middle(&mut wholes).unwrap_or(0));
        // Of two nobody can say which one differs: it is told of the one that has more.
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
            let steps: Vec<_> = all.iter().map(|of| &of.steps).collect();
            let since = match metric {
                Metric::Tensors => since(&of.steps, &steps, off_bytes, least),
                _ => None,
            };
            found.push(Outlier {
                rank: *rank,
                metric,
                bytes,
                off_bytes,
                peers: spread,
                peer_count: figures.len(),
                since,
                differences: medians.differences(&of.held, off_bytes, keys),
            });
        }
    }
    found
}
