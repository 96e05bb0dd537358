//! The ranks of a job, as text.

mod caveats;
mod outlier;
mod table;
mod words;

use caveats::caveats;
use outlier::{difference, told};
use table::table;

use super::{Source, Style, Terminal, bytes, count, duration};
use crate::account::many;
use crate::ranks::{Job, Outlier};

/// Ranks that are told in words.
const TOLD: usize = 8;

/// Which ranks differ, by what and since when; then the ranks.
pub fn ranks_text(job: &Job, all: bool, terminal: Terminal) -> String {
    let by_rank: Vec<&[Outlier]> = job.outliers.chunk_by(|a, b| a.rank == b.rank).collect();
    let mut out = first_answer(job, &by_rank, terminal);
    out.push('\n');
    let mut source = Source::since(job.started_unix_ns);
    for of in by_rank.iter().take(TOLD) {
        out.push_str(&told(of, &mut source, terminal));
    }
    if let more @ 1.. = by_rank.len().saturating_sub(TOLD) {
        let more = many(more as u64, "more rank differs", "more ranks differ");
        out.push_str(&format!(
            "{more}: --format json has all.

"
        ));
    }
    out.push_str(&table(job, all, terminal));
    out.push_str(&caveats(job));
    out
}

/// The answer in at most three lines.
fn first_answer(job: &Job, by_rank: &[&[Outlier]], terminal: Terminal) -> String {
    let first = match by_rank {
        [] if job.ranks.len() < 2 => "One rank alone: there is nothing to compare it with.".into(),
        [] => "No rank differs from its peers.".into(),
        [of, others @ ..] => {
            let others = match others.len() {
                0 => String::new(),
                1 => " So does 1 other rank.".to_owned(),
                others => format!(" So do {} other ranks.", count(others as u64)),
            };
            format!("{}{others}", difference(of))
        }
    };
    let style = if by_rank.is_empty() {
        Style::Good
    } else {
        Style::Bad
    };
    let mut out = terminal.paint(style, &first) + "\n";
    out.push_str(&ranks_line(job));
    out.push_str(&endings_line(job));
    out
}

fn ranks_line(job: &Job) -> String {
    let mut hosts: Vec<_> = job
        .ranks
        .iter()
        .filter_map(|rank| rank.host.as_ref())
        .collect();
    hosts.sort();
    hosts.dedup();
    let on = match hosts.len() {
        0 => String::new(),
        hosts => format!(" on {}", many(hosts as u64, "machine", "machines")),
    };
    let of = match job.world_size {
        Some(all) => format!(
            "{} of {}",
            count(job.ranks.len() as u64),
            many(all, "rank", "ranks")
        ),
        None => many(job.ranks.len() as u64, "rank", "ranks"),
    };
    let mut peaks: Vec<_> = job
        .ranks
        .iter()
        .map(|rank| rank.device_peak_bytes)
        .collect();
    peaks.sort_unstable();
    let peaks = match peaks[..] {
        [] => String::new(),
        [only] => format!("; it held {} at most", bytes(only)),
        [least, .., most] => {
            let median = peaks.get((peaks.len() - 1) / 2).copied().unwrap_or(0);
            format!(
                "; they held {} to {} at most, the median {}",
                bytes(least),
                bytes(most),
                bytes(median)
            )
        }
    };
    format!("{of}{on}{peaks}.\n")
}

fn endings_line(job: &Job) -> String {
    let endings = &job.endings;
    let after = duration(gpumem_capture::Nanos(endings.first_to_last_ns).0);
    let killed = endings.killed.len() as u64;
    match (&endings.out_of_memory[..], &endings.killed[..]) {
        ([], []) => match endings.running {
            0 => String::new(),
            running => format!("{} still.\n", many(running, "rank runs", "ranks run")),
        },
        ([], [only]) => {
            format!("Rank {only} was killed; the last rank ended {after} later.\n")
        }
        ([], [first, ..]) => format!(
            "{} ranks were killed, rank {first} first; the last rank ended {after} later.\n",
            count(killed)
        ),
        ([first, others @ ..], _) => {
            let others = match others.len() {
                0 => String::new(),
                others => format!(
                    "; so did {}",
                    many(others as u64, "other rank", "other ranks")
                ),
            };
            let followed = match killed {
                0 => String::new(),
                killed => format!("; {} killed", many(killed, "rank was", "ranks were")),
            };
            format!(
                "Rank {first} ran out of memory first{others}{followed}. The last rank ended {after} later.\n"
            )
        }
    }
}
