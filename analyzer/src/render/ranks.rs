//! The ranks of a job, as text.

use super::{Align, Style, Table, Terminal, bytes, count, duration};
use crate::account::many;
use crate::ranks::{Difference, Ended, Job, Metric, Of, Outlier, RankRow, Since};

/// Ranks in a table that are not asked for one by one.
const SHOWN: usize = 16;
/// Ranks that are told in words.
const TOLD: usize = 8;

/// Which ranks differ, by what and since when; then the ranks.
pub fn ranks_text(job: &Job, all: bool, terminal: Terminal) -> String {
    let by_rank: Vec<&[Outlier]> = job.outliers.chunk_by(|a, b| a.rank == b.rank).collect();
    let mut out = first_answer(job, &by_rank, terminal);
    out.push('\n');
    for of in by_rank.iter().take(TOLD) {
        out.push_str(&told(of, terminal));
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

/// By how much one rank differs, by which line, and since when.
fn difference(of: &[Outlier]) -> String {
    let Some(main) = of.first() else {
        return String::new();
    };
    let all: i64 = of.iter().map(|of| of.off_bytes).sum();
    let amount = match all {
        0.. => format!("{} more", bytes(all.unsigned_abs())),
        _ => format!("{} less", bytes(all.unsigned_abs())),
    };
    let line = largest(main).map(|line| format!(", most of it by {}", line.name));
    let line = line.unwrap_or_default();
    format!(
        "Rank {} holds {amount} than its peers{}{line}.",
        main.rank,
        since(main.since)
    )
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

/// One rank that differs, by one metric or several.
fn told(of: &[Outlier], terminal: Terminal) -> String {
    let Some(main) = of.first() else {
        return String::new();
    };
    let parts = of.iter().map(|of| {
        format!(
            "{} {}{}",
            plus(of.off_bytes),
            of.metric.word(),
            since(of.since)
        )
    });
    let head = format!(
        "Rank {}: {}",
        main.rank,
        parts.collect::<Vec<_>>().join("; ")
    );
    let mut out = terminal.paint(Style::Strong, &head) + "\n";
    let (left, right) = (Align::Left, Align::Right);
    let mut table = Table::new(&[right, right, right, left])
        .elastic(&[3])
        .keep_end(3);
    table
        .row(["more", "it has", "peers have", ""])
        .style_row(Style::Faint);
    for of in of {
        let name = format!(
            "{}, of {}",
            of.metric.word(),
            many(of.peer_count as u64, "peer", "peers")
        );
        table.row([
            &plus(of.off_bytes),
            &signed(of.bytes),
            &signed(of.peers.median),
            &name,
        ]);
        table.style_row(Style::Strong);
        for row in of
            .differences
            .iter()
            .filter(|row| explains(of.metric, row.of))
        {
            let name = match row.of {
                Of::Category => format!("  category: {}", row.name),
                Of::Module => format!("  module: {}", row.name),
                Of::Line | Of::Pool | Of::Outside => format!("  {}", row.name),
            };
            table.row([
                &plus(row.off()),
                &bytes(row.bytes),
                &bytes(row.median_bytes),
                &name,
            ]);
        }
    }
    out.push_str(&table.render(terminal, 2));
    out.push('\n');
    out
}

/// Whether holders of a kind are parts of what a metric counts.
fn explains(metric: Metric, of: Of) -> bool {
    match metric {
        Metric::Tensors => matches!(of, Of::Line | Of::Category | Of::Module),
        Metric::Cache => of == Of::Pool,
        Metric::Outside => of == Of::Outside,
        Metric::Unexplained => false,
    }
}

fn table(job: &Job, all: bool, terminal: Terminal) -> String {
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

fn caveats(job: &Job) -> String {
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

/// The line or library that makes most of a difference.
fn largest(of: &Outlier) -> Option<&Difference> {
    of.differences.iter().find(|row| {
        let is_place = matches!(row.of, Of::Line | Of::Pool | Of::Outside);
        is_place && explains(of.metric, row.of) && row.off().signum() == of.off_bytes.signum()
    })
}

fn since(since: Option<Since>) -> String {
    match since {
        None => String::new(),
        Some(Since { first_step: 1, .. }) => ", from the first step".to_owned(),
        Some(of) if of.first_step == of.last_step => format!(", since step {}", of.first_step),
        Some(of) => format!(
            ", since step {} to {}",
            count(of.first_step),
            count(of.last_step)
        ),
    }
}

fn signed(value: i64) -> String {
    crate::units::signed(value)
}

fn plus(value: i64) -> String {
    match value {
        1.. => format!("+{}", bytes(value.unsigned_abs())),
        _ => signed(value),
    }
}

/// `rank 3`, `ranks 0 to 7, 12`.
fn ranges(ranks: &[u64]) -> String {
    let runs: Vec<String> = ranks
        .chunk_by(|a, b| a + 1 == *b)
        .map(|run| match run {
            [first, .., last] if run.len() > 2 => format!("{first} to {last}"),
            _ => run
                .iter()
                .map(u64::to_string)
                .collect::<Vec<_>>()
                .join(", "),
        })
        .collect();
    let word = if ranks.len() == 1 { "rank" } else { "ranks" };
    let more = match runs.len().saturating_sub(TOLD) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    let shown = runs.get(..TOLD.min(runs.len())).unwrap_or(&[]);
    format!("{word} {}{more}", shown.join(", "))
}

fn ranges_have(ranks: &[u64]) -> String {
    let has = if ranks.len() == 1 { "has" } else { "have" };
    format!("{} {has}", ranges(ranks))
}
