//! The summary: which rank differs most, which captures exist, how the job ended.

use super::outlier::{also_differ, difference, name_of};
use crate::account::many;
use crate::ranks::{Job, Outlier};
use crate::render::{Style, Terminal, bytes, count, duration};

/// The summary in at most three lines.
pub(super) fn first_answer(job: &Job, by_rank: &[&[Outlier]], terminal: Terminal) -> String {
    let first = match by_rank {
        [] if job.ranks.len() < 2 => "The job has one rank, so it cannot be compared.".into(),
        [] => "No rank differs from its peers.".into(),
        [of, others @ ..] => difference(&name_of(of), of) + &also_differ(others.len()),
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
        [only] => format!("; its peak is {}", bytes(only)),
        [least, .., most] => {
            let median = peaks.get((peaks.len() - 1) / 2).copied().unwrap_or(0);
            format!(
                "; their peaks are {} to {}, the median {}",
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
            running => format!("{} still running.\n", many(running, "rank is", "ranks are")),
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
