//! All ranks, as a table.

use crate::account::many;
use crate::ranks::{Ended, Job, RankRow};
use crate::render::{Align, Style, Table, Terminal, bytes, count};

/// Rows where not all are asked for.
const SHOWN: usize = 16;

pub(super) fn table(job: &Job, all: bool, terminal: Terminal) -> String {
    let (left, right) = (Align::Left, Align::Right);
    let mut table =
        Table::new(&[right, left, right, right, right, right, right, left, left]).elastic(&[1, 7]);
    let heads = [
        "rank", "machine", "GPU", "tensors", "reserved", "total", "steps", "place", "end",
    ];
    table.row(heads).style_row(Style::Faint);
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
        table.row([
            &row.rank.to_string(),
            row.host.as_deref().unwrap_or(""),
            &row.device
                .map(|device| device.to_string())
                .unwrap_or_default(),
            &bytes(row.tensor_peak_bytes),
            &bytes(row.reserved_peak_bytes),
            &bytes(row.device_peak_bytes),
            &count(row.steps),
            &place,
            end,
        ]);
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
