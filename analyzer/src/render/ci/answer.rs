//! The answer in one line.

use gpumem_capture::text::clean;

use super::markdown::code;
use super::words::{of_level, percent, place, plus, workloads};
use crate::render::bytes;
use crate::views::ci::{Comparison, DevicePeaks, Finding, Judged, Outcome};

/// `GPU memory: +3.1 % (+48.0 MiB) in 1 of 4 workloads, by train.py:53`.
pub fn ci_answer(comparison: &Comparison) -> String {
    answer(comparison, |text| clean(text).into_owned())
}

/// The same with names in Markdown.
pub(super) fn markdown_answer(comparison: &Comparison) -> String {
    answer(comparison, code)
}

fn answer(comparison: &Comparison, name: fn(&str) -> String) -> String {
    let all = comparison.workloads.len();
    let unjudged = |of: &&Judged| of.outcome() == Outcome::Unjudged;
    let (doubtful, judged): (Vec<&Judged>, Vec<&Judged>) =
        comparison.workloads.iter().partition(unjudged);
    let mut parts = Vec::new();
    match &doubtful[..] {
        [] => {}
        [only] if all == 1 => parts.push(format!("{} cannot be judged", name(&only.workload.name))),
        some => parts.push(format!(
            "{} of {} cannot be judged",
            some.len(),
            workloads(all)
        )),
    }
    if let [first, ..] = &comparison.absent[..] {
        let more = match comparison.absent.len() {
            1 => String::new(),
            many => format!(" and of {} more", many - 1),
        };
        parts.push(format!("no capture of {}{more}", name(first)));
    }
    if !judged.is_empty() {
        let compared = judged.iter().filter(|of| of.workload.is_compared()).count();
        parts.push(match compared {
            0 => alone(&judged, name),
            _ => together(&judged, all, name),
        });
    }
    format!("GPU memory: {}", parts.join("; "))
}

/// For workloads that can be compared.
fn together(judged: &[&Judged], all: usize, name: fn(&str) -> String) -> String {
    let compared = judged.iter().filter(|of| of.workload.is_compared());
    let changed = compared
        .clone()
        .filter(|of| of.workload.devices.iter().any(is_changed));
    let count = changed.clone().count();
    let rows = changed.flat_map(|of| of.workload.devices.iter().map(move |row| (*of, row)));
    let Some((of, row)) = rows
        .filter(|(_, row)| is_changed(row))
        .max_by_key(|it| rank(*it))
    else {
        let same = compared.count();
        let where_ = match (same, judged) {
            (1, [only]) => name(&only.workload.name),
            _ if same < all => format!("{same} of {}", workloads(all)),
            _ => workloads(same),
        };
        return over_budget(judged, name).unwrap_or_else(|| format!("unchanged in {where_}"));
    };
    let change = row.change_bytes.unwrap_or(0);
    let figure = match percent(row.base_bytes.unwrap_or(0), change) {
        Some(percent) => format!("{percent} ({})", plus(change)),
        None => plus(change),
    };
    // The line that contributed most.
    let by = row
        .lines
        .iter()
        .find(|part| (part.change_bytes > 0) == (change > 0));
    let by = by
        .map(|part| format!(", by {}", name(&part.name)))
        .unwrap_or_default();
    match count {
        1 if all > 1 => format!("{figure} in 1 of {}{by}", workloads(all)),
        1 => format!("{figure} in {}{by}", place(&of.workload, row.device, name)),
        _ => format!(
            "{figure} in {}{by}; {count} of {} changed",
            place(&of.workload, row.device, name),
            workloads(all)
        ),
    }
}

/// For workloads without a base.
fn alone(judged: &[&Judged], name: fn(&str) -> String) -> String {
    if let Some(said) = over_budget(judged, name) {
        return said;
    }
    let rows = judged.iter().flat_map(|of| {
        let rows = of.workload.devices.iter();
        rows.filter_map(|row| Some((row.head_bytes?, *of, row.device)))
    });
    let Some((peak, of, device)) = rows.max_by_key(|(peak, ..)| *peak) else {
        return format!("{} only in the base", workloads(judged.len()));
    };
    let most = format!(
        "{} {} in {}",
        bytes(peak),
        of_level(of.workload.level),
        place(&of.workload, device, name)
    );
    match judged.len() {
        1 => format!("{most}, no base to compare with"),
        many => format!(
            "at most {most}, of {}; no base to compare with",
            workloads(many)
        ),
    }
}

/// The workload that exceeds its budget most.
fn over_budget(judged: &[&Judged], name: fn(&str) -> String) -> Option<String> {
    let findings = judged
        .iter()
        .flat_map(|of| of.findings.iter().map(move |found| (*of, found)));
    let beyond = findings.filter_map(|(of, found)| match found {
        Finding::OverBudget {
            device,
            peak_bytes,
            budget_bytes,
            ..
        } => Some((peak_bytes - budget_bytes, of, *device, *budget_bytes)),
        _ => None,
    });
    let (by, of, device, budget) = beyond.max_by_key(|(by, ..)| *by)?;
    Some(format!(
        "{} is {} above its budget of {}",
        place(&of.workload, device, name),
        bytes(by),
        bytes(budget)
    ))
}

fn is_changed(row: &DevicePeaks) -> bool {
    row.change_bytes.is_some_and(|change| change != 0)
}

/// The order of changes: those that break a rule, then the largest growth, then the largest.
pub(super) fn rank(
    (of, row): (&Judged, &DevicePeaks),
) -> (bool, bool, u64, std::cmp::Reverse<String>) {
    let change = row.change_bytes.unwrap_or(0);
    let is_broken = of.findings.iter().any(|found| match found {
        Finding::Grew { device, .. } | Finding::OverBudget { device, .. } => *device == row.device,
        _ => false,
    });
    let name = std::cmp::Reverse(of.workload.name.clone());
    (is_broken, change > 0, change.unsigned_abs(), name)
}
