//! Ranks for tests.

use super::endings::End;
use super::figures::{Figures, RankRow};
use super::steps::Steps;

/// A rank of a job of ten with this peak and these steps.
pub fn figures(rank: u64, tensors: u64, steps: Steps) -> Figures {
    let row = RankRow {
        rank,
        is_numbered: true,
        file: format!("report.rank{rank}.bin").into(),
        pid: 7,
        device: Some(0),
        tensor_peak_bytes: tensors,
        reserved_peak_bytes: tensors,
        device_peak_bytes: tensors,
        steps: steps.ended,
        end: End {
            at_unix_ns: 2,
            ..End::default()
        },
        ..RankRow::default()
    };
    Figures {
        row,
        world_size: Some(10),
        started_unix_ns: 1,
        steps,
        ..Figures::default()
    }
}
