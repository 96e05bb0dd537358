//! Ranks that differ from their peers.

use schemars::JsonSchema;
use serde::Serialize;

use super::differences::{Difference, Medians};
use super::differing::{Metric, distances};
use super::figures::Figures;
use super::holders::Keys;
use super::open::Open;
use super::robust::Spread;
use super::steps::{Since, since};

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
    let rows: Vec<_> = peers.iter().map(|(_, of)| &of.row).collect();
    let mut medians = None;
    let found = distances(&rows).into_iter().filter_map(|far| {
        let (rank, of) = *peers.get(far.at)?;
        let medians = medians.get_or_insert_with(|| {
            let held: Vec<_> = peers.iter().map(|(_, of)| &*of.held).collect();
            Medians::of(&held)
        });
        let (since, open) = match far.metric {
            Metric::Tensors => began((rank, of), peers, far.peers, far.off_bytes, far.least),
            _ => (None, None),
        };
        Some(Outlier {
            rank,
            metric: far.metric,
            bytes: far.bytes,
            off_bytes: far.off_bytes,
            peers: far.peers,
            peer_count: far.peer_count,
            since,
            open,
            differences: medians.differences(&of.held, far.off_bytes, keys),
        })
    });
    found.collect()
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
            let far = Metric::Tensors.of(&figures.row)?.abs_diff(spread.median);
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
