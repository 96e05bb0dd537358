//! Ranks of a job that differ from their peers, by the rule of the command `ranks`.

use std::collections::BTreeMap;

use gpumem_analyzer::ranks::{Metric, differing};

use super::capture::Capture;
use super::family::Families;

/// Only ranks that are followed here are compared.
pub(super) fn add(to: &mut Families, captures: &[Capture]) {
    let mut jobs: BTreeMap<(Option<&str>, u64), Vec<&Capture>> = BTreeMap::new();
    for capture in captures {
        let process = &capture.frame.process;
        if let (Some(_), Some(size)) = (capture.frame.rank(), process.world_size) {
            let job = process.job.as_deref();
            jobs.entry((job, size)).or_default().push(capture);
        }
    }
    for ranks in jobs.values().filter(|ranks| ranks.len() > 1) {
        let rows: Vec<_> = ranks.iter().map(|of| &*of.frame.row).collect();
        let differs = differing(&rows);
        for (at, (capture, row)) in ranks.iter().zip(rows).enumerate() {
            for metric in Metric::ALL {
                if metric.of(row).is_none() {
                    continue;
                }
                let found = differs.iter().find(|of| (of.at, of.metric) == (at, metric));
                to.gauge(
                    "gpumem_rank_difference_bytes",
                    "Difference of a rank from its peers' median, if it is above the peers' deviation; else 0.",
                    &capture.with(&[("part", metric.name())]),
                    found.map_or(0, |of| of.off_bytes),
                );
            }
        }
    }
}
