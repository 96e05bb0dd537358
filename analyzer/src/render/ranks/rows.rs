//! Assigns ranks to the rows of a picture with few rows.

use std::collections::BTreeSet;

use crate::account::many;
use crate::ranks::{Ended, Job, PeerGroup};
use crate::render::bytes;

/// The maximum number of rows, without those of single ranks.
const ROWS: usize = 32;
/// How many ranks that differ, or died first, have separate rows if others share one.
const OWN: usize = 8;
/// With more groups than this, groups have no headings.
const BANDS: usize = 8;

/// Rows that belong together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Band {
    /// What their ranks share; empty if there is only one band.
    pub heading: String,
    /// The rows.
    pub rows: Vec<Row>,
}

/// One row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Row {
    /// The ranks in it, at least one.
    pub ranks: Vec<u64>,
    /// The label before it.
    pub label: String,
    /// Whether they differ from their peers.
    pub differs: bool,
}

/// The rows of a job, and the maximum number of ranks in a row.
pub(super) fn bands(job: &Job) -> (Vec<Band>, usize) {
    let differing: BTreeSet<u64> = job.outliers.iter().map(|of| of.rank).collect();
    let each = job.ranks.len().div_ceil(ROWS).max(1);
    let own = match each {
        1 => BTreeSet::new(),
        _ => own(job),
    };
    let row = |ranks: &[u64], label: Option<String>| Row {
        differs: ranks.iter().any(|rank| differing.contains(rank)),
        label: label.unwrap_or_else(|| range(ranks)),
        ranks: ranks.to_vec(),
    };
    let of_group = |group: &PeerGroup| -> Vec<Row> {
        let (single, shared): (Vec<u64>, Vec<u64>) =
            group.ranks.iter().partition(|rank| own.contains(rank));
        let shared = shared.chunks(each).map(|ranks| row(ranks, None));
        let single = single.iter().map(|rank| row(&[*rank], None));
        single.chain(shared).collect()
    };
    if job.groups.len() <= BANDS {
        let headings = job.groups.len() > 1;
        let bands = job.groups.iter().map(|group| Band {
            heading: if headings {
                heading(group)
            } else {
                String::new()
            },
            rows: of_group(group),
        });
        return (bands.collect(), each);
    }
    // A row for each group, or for several adjacent groups.
    let single = own.iter().map(|rank| row(&[*rank], None));
    let shared = job
        .groups
        .chunks(job.groups.len().div_ceil(ROWS))
        .filter_map(|groups| {
            let ranks = groups.iter().flat_map(|group| &group.ranks);
            let ranks: Vec<u64> = ranks.filter(|rank| !own.contains(rank)).copied().collect();
            let place = |group: Option<&PeerGroup>| group.map(|of| of.coordinates.to_string());
            let (first, last) = (place(groups.first())?, place(groups.last())?);
            let label = if first == last {
                first
            } else {
                format!("{first} to {last}")
            };
            (!ranks.is_empty()).then(|| row(&ranks, Some(label)))
        });
    let rows: Vec<Row> = single.chain(shared).collect();
    let each = rows.iter().map(|row| row.ranks.len()).max().unwrap_or(1);
    let heading = String::new();
    (vec![Band { heading, rows }], each)
}

fn own(job: &Job) -> BTreeSet<u64> {
    let mut own = BTreeSet::new();
    for of in &job.outliers {
        if own.len() < OWN {
            own.insert(of.rank);
        }
    }
    let endings = &job.endings;
    let died = endings.out_of_memory.first().or(endings.killed.first());
    own.extend(died);
    own
}

fn heading(group: &PeerGroup) -> String {
    let ranks = many(group.ranks.len() as u64, "rank", "ranks");
    let median = bytes(group.tensors.median.unsigned_abs());
    format!(
        "{}: {ranks}, median of the tensors' peaks {median}",
        group.coordinates
    )
}

/// Ranks such as `3`, `0-31` or `0..992`; two dots if ranks in between are missing.
fn range(ranks: &[u64]) -> String {
    match ranks {
        [] => String::new(),
        [only] => only.to_string(),
        [first, .., last] => {
            let is_whole = ranks
                .windows(2)
                .all(|pair| matches!(pair, [a, b] if a + 1 == *b));
            let between = if is_whole { "-" } else { ".." };
            format!("{first}{between}{last}")
        }
    }
}

/// Whether a rank died, for marks in pictures.
pub(super) fn died(job: &Job, rank: u64) -> bool {
    let row = job.ranks.iter().find(|row| row.rank == rank);
    row.is_some_and(|row| matches!(row.end.ended, Ended::Killed | Ended::OutOfMemory))
}
