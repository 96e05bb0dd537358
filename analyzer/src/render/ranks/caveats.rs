//! What is missing from a job, and what its ranks should share and do not.

use super::words::{clock_lines, ranges, ranges_have};
use crate::account::many;
use crate::ranks::{Job, Mixed};
use crate::render::{bytes, count};

/// How many ranks are listed.
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
            "Not exact: {}: `gpumem-analyze check` lists the missing data.",
            ranges(&partial)
        ));
    }
    lines.extend(job.unreadable.iter().map(|why| format!("Not read: {why}.")));
    lines.extend(mixed(&job.mixed));
    if let captures @ 1.. = job.unranked.captures {
        let names = job
            .unranked
            .first
            .iter()
            .map(|file| file.display().to_string());
        let more = match captures.saturating_sub(job.unranked.first.len() as u64) {
            0 => String::new(),
            more => format!(" and {} more", count(more)),
        };
        lines.push(format!(
            "{} ignored, because no rank is known: {}{more}.",
            many(captures, "capture is", "captures are"),
            names.collect::<Vec<_>>().join(", ")
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
            "{} of rank {} is ignored: {}.",
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
        lines.push("Peers' peaks vary widely. If ranks hold different parts of the model, give their positions with --mesh pp=2,dp=4.".to_owned());
    }
    if job.ranks.len() > 1 {
        lines.push(format!("Rule: {}.", job.rule));
    }
    match lines.is_empty() {
        true => String::new(),
        false => format!("\n{}\n", lines.join("\n")),
    }
}

/// Facts that differ between ranks. Those that differ in the same ranks are listed together, because they have one
/// cause.
fn mixed(all: &[Mixed]) -> Vec<String> {
    let ranks = |of: &Mixed| {
        let ranks = of.values.iter().map(|(_, ranks)| ranks);
        let mut ranks: Vec<Vec<u64>> = ranks.skip(1).cloned().collect();
        ranks.sort();
        ranks
    };
    let mut groups: Vec<(Vec<Vec<u64>>, Vec<&Mixed>)> = Vec::new();
    for of in all {
        let ranks = ranks(of);
        match groups.iter_mut().find(|(known, _)| *known == ranks) {
            Some((_, group)) => group.push(of),
            None => groups.push((ranks, vec![of])),
        }
    }
    let lines = groups.iter().filter_map(|(_, group)| {
        let (first, others) = group.split_first()?;
        let mut values = first.values.iter();
        let usual = values.next().map_or("", |(value, _)| value);
        let differ = values.map(|(value, of)| format!("{} {value}", ranges_have(of)));
        let what = &first.what;
        let differ = differ.collect::<Vec<_>>().join(", ");
        let also: Vec<&str> = others.iter().map(|of| &*of.what).collect();
        let also = match also[..] {
            [] => String::new(),
            [only] => format!(" {only} differs in the same ranks."),
            [..] => format!(" {} differ in the same ranks.", also.join(", ")),
        };
        Some(format!(
            "{what} differs: {differ}; the others {usual}.{also}"
        ))
    });
    lines.collect()
}
