//! What a job lacks, and what its ranks do not share.

use super::words::{clock_lines, ranges, ranges_have};
use crate::ranks::Job;
use crate::render::bytes;

/// Ranks that are told one by one.
const TOLD: usize = 8;

pub(super) fn caveats(job: &Job) -> String {
    let mut lines = Vec::new();
    if !job.missing_ranks.is_empty() {
        lines.push(format!(
            "Without a capture: {}.",
            ranges(&job.missing_ranks)
        ));
    }
    let partial: Vec<u64> = job
        .ranks
        .iter()
        .filter(|rank| !rank.missing.is_empty())
        .map(|rank| rank.rank)
        .collect();
    if !partial.is_empty() {
        lines.push(format!(
            "Not exact: {}: `gpumem-analyze check` says what is missing.",
            ranges(&partial)
        ));
    }
    lines.extend(job.unreadable.iter().map(|why| format!("Not read: {why}.")));
    for mixed in &job.mixed {
        let mut values = mixed.values.iter();
        let usual = values.next().map_or("", |(value, _)| value);
        let others = values.map(|(value, of)| format!("{} {value}", ranges_have(of)));
        lines.push(format!(
            "{} differs: {}; the others {usual}.",
            mixed.what,
            others.collect::<Vec<_>>().join(", ")
        ));
    }
    lines.extend(clock_lines(&job.clocks));
    for spare in &job.spare {
        let what = if spare.is_earlier {
            "an earlier start"
        } else {
            "another process"
        };
        lines.push(format!(
            "{} of rank {} is left out: {}.",
            what,
            spare.rank,
            spare.file.display()
        ));
    }
    let others = job
        .ranks
        .iter()
        .filter(|rank| !rank.other_devices.is_empty());
    for rank in others.take(TOLD) {
        let on = rank
            .other_devices
            .iter()
            .map(|(device, held)| format!("{} on GPU {device}", bytes(*held)));
        lines.push(format!(
            "Rank {} also holds {}.",
            rank.rank,
            on.collect::<Vec<_>>().join(", ")
        ));
    }
    if job.has_wide_groups() {
        lines.push("Peers' peaks scatter widely. If ranks hold different parts of the model, say where they stand: --mesh pp=2,dp=4.".to_owned());
    }
    if job.ranks.len() > 1 {
        lines.push(format!("Rule: {}.", job.rule));
    }
    match lines.is_empty() {
        true => String::new(),
        false => format!("\n{}\n", lines.join("\n")),
    }
}
