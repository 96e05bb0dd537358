//! Ranks of a job that differ from their peers, by the rule of the command `ranks`.

use std::collections::BTreeMap;

use gpumem_analyzer::ranks::{Coordinates, Spread, least};

use super::common::Common;
use crate::captures::Now;
use crate::family::Families;

/// A compared figure.
type Part = (&'static str, fn(&Now) -> u64);

const PARTS: [Part; 3] = [
    ("tensors", |of| peak(of, |at| at.at_peak.tensor)),
    ("reserved", |of| peak(of, |at| at.reserved_peak)),
    ("driver", |of| peak(of, |at| at.at_peak.driver)),
];

fn peak(of: &Now, figure: fn(&gpumem_live::DeviceNow) -> u64) -> u64 {
    of.frame.devices.iter().map(figure).max().unwrap_or(0)
}

/// Only ranks that this exporter follows are compared.
pub(super) fn add(to: &mut Families, captures: &[Now]) {
    let mut jobs: BTreeMap<(&str, u64, Option<&Coordinates>), Vec<&Now>> = BTreeMap::new();
    for capture in captures {
        let process = &capture.frame.process;
        if let (Some(_), Some(size)) = (process.rank, process.world_size) {
            let job = process.job.as_deref().unwrap_or_default();
            let peers = process.peers.as_ref();
            jobs.entry((job, size, peers)).or_default().push(capture);
        }
    }
    for peers in jobs.values().filter(|peers| peers.len() > 1) {
        for (part, figure) in PARTS {
            let mut figures: Vec<i64> = peers.iter().map(|of| figure(of) as i64).collect();
            let Some(held) = Spread::of(&mut figures, 0).map(|of| of.median.unsigned_abs()) else {
                continue;
            };
            let Some(spread) = Spread::of(&mut figures, least(held)) else {
                continue;
            };
            for capture in peers {
                let off = spread.off(figure(capture) as i64).unwrap_or(0);
                let common = Common::of(capture);
                to.gauge(
                    "gpumem_rank_difference_bytes",
                    "Difference of a rank's peak from its peers' median, if it is above the peers' deviation; else 0.",
                    &common.with(&[("part", part)]),
                    off,
                );
            }
        }
    }
}
