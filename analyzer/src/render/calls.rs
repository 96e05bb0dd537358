//! Durations of CUDA calls as text.

use std::cmp::Reverse;

use super::{Align, Style, Table, Terminal, count, duration};
use crate::views::{Calls, TimesSummary};

/// The table of functions with timed calls, the largest total time first; empty without timed calls.
pub fn call_times(calls: &[Calls], terminal: Terminal) -> String {
    let mut timed: Vec<(&str, [&Option<TimesSummary>; 3])> = calls
        .iter()
        .filter_map(|row| {
            let times = [&row.times, &row.failed_times, &row.set_up_times];
            let is_timed = times.iter().any(|times| times.is_some());
            is_timed.then_some((row.function.as_deref()?, times))
        })
        .collect();
    if timed.is_empty() {
        return String::new();
    }
    let total = |times: &Option<TimesSummary>| times.as_ref().map_or(0, |times| times.total_ns);
    timed.sort_by_key(|(name, times)| {
        let all = times.iter().map(|times| total(times));
        (Reverse(all.fold(0, u64::saturating_add)), *name)
    });
    let right = Align::Right;
    let mut table = Table::new(&[Align::Left, right, right, right, right]);
    table
        .row([
            "calls of memory functions",
            "number",
            "mean",
            "greatest",
            "sum",
        ])
        .style_row(Style::Faint);
    for (name, [succeeded, failed, set_up]) in timed {
        let failed_name = format!("{name}, failed");
        let set_up_name = format!("{name}, with set-up");
        let rows = [
            (name, succeeded),
            (&*failed_name, failed),
            (&*set_up_name, set_up),
        ];
        for (name, times) in rows {
            if let Some(times) = times {
                table.row([
                    name,
                    &count(times.calls),
                    &duration(times.mean_ns),
                    &duration(times.greatest_ns),
                    &duration(times.total_ns),
                ]);
            }
        }
    }
    format!("\n{}", table.render(terminal, 0))
}
