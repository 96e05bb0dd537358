//! All ranks, as a table.

use crate::account::many;
use crate::ranks::{Ended, Job, RankRow};
use crate::render::{Align, Style, Table, Terminal, bytes, count};

/// How many rows are shown unless all are requested.
const SHOWN: usize = 16;

/// The column of NCCL's memory.
const NCCL: usize = 5;

pub(super) fn table(job: &Job, all: bool, terminal: Terminal) -> String {
    let (left, right) = (Align::Left, Align::Right);
    let mut columns = vec![
        right, left, right, right, right, right, right, right, left, left,
    ];
    // Without NCCL's memory in any rank, the column is omitted.
    let has_nccl = job.ranks.iter().any(|row| nccl(row) > 0);
    if !has_nccl {
        columns.remove(NCCL);
    }
    let mut table = Table::new(&columns).elastic(&[1, columns.len() - 2]);
    let add = |table: &mut Table, mut cells: Vec<&str>| {
        if !has_nccl {
            cells.remove(NCCL);
        }
        table.cells(&cells);
    };
    let heads = vec![
        "rank", "machine", "GPU", "tensors", "reserved", "NCCL", "total", "steps", "place", "end",
    ];
    add(&mut table, heads);
    table.style_row(Style::Faint);
    let mut rows: Vec<&RankRow> = job.ranks.iter().collect();
    let left_out = rows.len().saturating_sub(SHOWN);
    if !all && left_out > 0 {
        let differs = |row: &RankRow| job.outliers.iter().any(|of| of.rank == row.rank);
        rows.sort_by_key(|row| {
            (
                !differs(row),
                std::cmp::Reverse(row.device_peak_bytes),
                row.rank,
            )
        });
        rows.truncate(SHOWN);
    }
    for row in rows {
        let differs = job.outliers.iter().any(|of| of.rank == row.rank);
        let end = match row.end.ended {
            Ended::Clean => "",
            Ended::Running => "runs",
            Ended::Killed => "killed",
            Ended::OutOfMemory => "out of memory",
        };
        let place = row
            .coordinates
            .as_ref()
            .map(ToString::to_string)
            .unwrap_or_default();
        let device = row.device.map(|device| device.to_string());
        let cells = vec![
            row.rank.to_string(),
            row.host.clone().unwrap_or_default(),
            device.unwrap_or_default(),
            bytes(row.tensor_peak_bytes),
            bytes(row.reserved_peak_bytes),
            bytes(nccl(row)),
            bytes(row.device_peak_bytes),
            count(row.steps),
            place,
            end.to_owned(),
        ];
        add(&mut table, cells.iter().map(String::as_str).collect());
        if differs {
            table.style(0, Style::Bad);
        }
    }
    let mut out = table.render(terminal, 0);
    if !all && left_out > 0 {
        out.push_str(&format!(
            "{} not shown: --all shows them.\n",
            many(left_out as u64, "rank is", "ranks are")
        ));
    }
    out
}

/// The bytes of NCCL and symmetric memory.
fn nccl(row: &RankRow) -> u64 {
    row.nccl_bytes.saturating_add(row.symmetric_bytes)
}
