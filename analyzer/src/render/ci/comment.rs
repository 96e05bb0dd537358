//! The comment on a change, in Markdown: the answer, the findings of rules, a table of workloads, and what changed in
//! them.

use std::cmp::Reverse;

use super::answer::{markdown_answer, rank};
use super::details::Block;
use super::markdown::{code, text};
use super::words::{allowance, changed, finding, limit, of_level, place, workloads};
use crate::render::bytes;
use crate::views::ci::{Comparison, DevicePeaks, Finding, Judged, Outcome};

/// The maximum number of lines of the comment.
const LINES: usize = 60;
/// The maximum number of findings.
const FINDINGS: usize = 7;
/// Rows of the table.
const ROWS: usize = 12;
/// The maximum number of workloads with details.
const BLOCKS: usize = 4;
/// The maximum and minimum number of parts of each kind.
const PARTS: (usize, usize) = (8, 3);
/// The mark by which the next run finds the comment.
const MARK: &str = "<!-- gpumem ci -->\n";

/// The comment.
pub fn ci_comment(comparison: &Comparison) -> String {
    let mut out = format!("### {}\n\n", markdown_answer(comparison));
    findings(comparison, &mut out);
    let mut rows: Vec<(&Judged, &DevicePeaks)> = comparison
        .workloads
        .iter()
        .flat_map(|of| of.workload.devices.iter().map(move |row| (of, row)))
        .collect();
    rows.sort_by_key(|row| Reverse((row.0.outcome(), rank(*row))));
    table(&rows, &mut out);
    parts(&rows, &mut out);
    out.push_str(MARK);
    out
}

/// The result and the findings as a list.
fn findings(comparison: &Comparison, out: &mut String) {
    let rules = &comparison.rules;
    let is_there = |name: &str| {
        comparison
            .workloads
            .iter()
            .any(|of| of.workload.name == name)
    };
    let is_compared = comparison
        .workloads
        .iter()
        .any(|of| of.workload.is_compared());
    let has_budget = rules
        .budgets
        .iter()
        .any(|budget| is_there(&budget.workload));
    let verdict = match (comparison.outcome, rules.fail_over) {
        (Outcome::Fails, _) => "**Fails.**".to_owned(),
        (Outcome::Unjudged, _) => "**Not judged.** Captures are partial or missing.".to_owned(),
        (Outcome::Passes, Some(most)) if is_compared => {
            format!("**Passes.** Each workload may grow by {}.", limit(most))
        }
        (Outcome::Passes, _) if !has_budget => "No limit is set.".to_owned(),
        (Outcome::Passes, _) => "**Passes.**".to_owned(),
    };
    out.push_str(&verdict);
    out.push('\n');
    let mut lines: Vec<(u8, String)> = Vec::new();
    for judged in &comparison.workloads {
        lines.extend(judged.findings.iter().map(|found| {
            let order = match found {
                Finding::Grew { .. } | Finding::OverBudget { .. } => 0,
                Finding::Unjudged { .. } => 1,
                Finding::Allowed { .. } => 4,
            };
            (order, finding(judged, found))
        }));
        let sides = [
            ("base", &judged.workload.base),
            ("head", &judged.workload.head),
        ];
        for (side, quality) in sides {
            let notes = quality.iter().flat_map(|quality| &quality.notes);
            let name = code(&judged.workload.name);
            lines.extend(notes.map(|note| (5, format!("{name}, {side}: {}", text(note)))));
        }
    }
    let absent = comparison.absent.iter();
    lines.extend(absent.map(|name| {
        (
            2,
            format!("not judged: {} has a budget and no capture", code(name)),
        )
    }));
    lines.extend(comparison.expired.iter().map(|of| {
        let said = format!(
            "expired: {} was allowed {}",
            code(&of.workload),
            allowance(of)
        );
        (3, said)
    }));
    lines.sort_by_key(|(order, _)| *order);
    for (_, line) in lines.iter().take(FINDINGS) {
        out.push_str(&format!("- {line}\n"));
    }
    if lines.len() > FINDINGS {
        out.push_str(&format!("- and {} more\n", lines.len() - FINDINGS));
    }
    out.push('\n');
}

/// A row for each workload and GPU, the most important first.
fn table(rows: &[(&Judged, &DevicePeaks)], out: &mut String) {
    let first = rows.first().map(|(of, _)| of.workload.level);
    let is_mixed = rows.iter().any(|(of, _)| Some(of.workload.level) != first);
    let title = match first {
        Some(level) if !is_mixed => format!("peak {}", of_level(level)),
        _ => "peak".to_owned(),
    };
    out.push_str(&format!(
        "| {title} | base | head | change | |\n|---|--:|--:|--:|---|\n"
    ));
    let has_base = rows.iter().any(|(of, _)| of.workload.base.is_some());
    for (of, row) in rows.iter().take(ROWS) {
        let mut name = place(&of.workload, row.device, code);
        if is_mixed {
            name.push_str(&format!(" {}", of_level(of.workload.level)));
        }
        let side = |bytes_of: Option<u64>| bytes_of.map_or("–".to_owned(), bytes);
        out.push_str(&format!(
            "| {name} | {} | {} | {} | {} |\n",
            side(row.base_bytes),
            side(row.head_bytes),
            changed(row, has_base),
            verdict(of, row)
        ));
    }
    if let Some(others) = rows.get(ROWS..).filter(|others| !others.is_empty()) {
        let changed = others
            .iter()
            .filter(|(_, row)| row.change_bytes != Some(0))
            .count();
        let changed = match changed {
            0 => "unchanged".to_owned(),
            some => format!("{some} changed"),
        };
        out.push_str(&format!("| {} more | | | {changed} | |\n", others.len()));
    }
    out.push('\n');
}

/// The last cell of a row.
fn verdict(of: &Judged, row: &DevicePeaks) -> &'static str {
    let found = of.findings.iter().filter_map(|found| match found {
        Finding::Unjudged { .. } => Some((2, "not judged")),
        Finding::Grew { device, .. } if *device == row.device => Some((4, "grew too much")),
        Finding::OverBudget { device, .. } if *device == row.device => Some((3, "over budget")),
        Finding::Allowed { device, .. } if *device == row.device => Some((1, "allowed")),
        _ => None,
    });
    found.max().map_or("", |(_, word)| word)
}

/// Lines, categories and modules of the workloads that changed, within the maximum number of lines.
fn parts(rows: &[(&Judged, &DevicePeaks)], out: &mut String) {
    let has_parts = |row: &DevicePeaks| {
        !(row.lines.is_empty() && row.categories.is_empty() && row.modules.is_empty())
    };
    let blocks: Vec<Block<'_>> = rows
        .iter()
        .filter(|(_, row)| has_parts(row))
        .map(|(of, row)| Block {
            workload: &of.workload,
            row,
        })
        .collect();
    // Two lines are reserved for what is left out, and one for the mark.
    let room = LINES.saturating_sub(out.lines().count() + 3);
    let fits = |(count, most): &(usize, usize)| {
        let heights = blocks.iter().take(*count).map(|block| block.height(*most));
        heights.sum::<usize>() <= room
    };
    let counts = (1..=blocks.len().min(BLOCKS)).rev();
    let sizes = counts.flat_map(|count| (PARTS.1..=PARTS.0).rev().map(move |most| (count, most)));
    let (count, most) = sizes.into_iter().find(fits).unwrap_or_default();
    for block in blocks.iter().take(count) {
        block.draw(most, out);
    }
    if blocks.len() > count {
        out.push_str(&format!(
            "Lines of {} more: `gpumem analyze diff BASE HEAD`.\n\n",
            workloads(blocks.len() - count)
        ));
    }
}
