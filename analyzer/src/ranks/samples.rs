//! Ranks for tests.

use super::endings::{End, Ended};
use super::figures::{Figures, RankRow};
use super::steps::Steps;
use super::watch::Drawn;
use crate::source::Readable;

/// A rank of a job of ten with this peak and these steps.
pub fn figures(rank: u64, tensors: u64, steps: Steps) -> Figures {
    let row = RankRow {
        rank,
        is_numbered: true,
        file: format!("report.rank{rank}.bin").into(),
        host: None,
        local_rank: None,
        node_rank: None,
        restarts: None,
        pid: 7,
        coordinates: None,
        device: Some(0),
        uuid: None,
        card_bytes: None,
        other_devices: Vec::new(),
        tensor_peak_bytes: tensors,
        reserved_peak_bytes: tensors,
        device_peak_bytes: tensors,
        nccl_bytes: 0,
        symmetric_bytes: 0,
        unexplained_bytes: None,
        steps: steps.ended,
        end: End {
            ended: Ended::Clean,
            at_unix_ns: 2,
            wanted_bytes: None,
        },
        missing: Vec::new(),
    };
    Figures {
        row,
        world_size: Some(10),
        started_unix_ns: 1,
        source: Readable::NONE,
        steps,
        facts: Vec::new(),
        held: Vec::new(),
        drawn: Drawn::default(),
    }
}
