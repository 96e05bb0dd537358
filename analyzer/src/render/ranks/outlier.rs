//! A rank that differs, as text.

use super::words::{plus, since};
use crate::account::many;
use crate::ranks::{Difference, Of, Outlier};
use crate::render::{Align, Source, Style, Table, Terminal, bytes, count, signed};

/// By how much one rank differs, by which line, and since when.
pub(super) fn difference(name: &str, of: &[Outlier]) -> String {
    let Some(main) = of.first() else {
        return String::new();
    };
    let all: i64 = of.iter().map(|of| of.off_bytes).sum();
    let amount = match all {
        0.. => format!("{} more", bytes(all.unsigned_abs())),
        _ => format!("{} less", bytes(all.unsigned_abs())),
    };
    let line = largest(main).map(|line| format!(", mostly from {}", line.name));
    let line = line.unwrap_or_default();
    format!(
        "{name} holds {amount} than its peers{}{line}.",
        since(main.since)
    )
}

/// How many other ranks differ.
pub(super) fn also_differ(others: usize) -> String {
    match others {
        0 => String::new(),
        1 => " 1 other rank also differs.".to_owned(),
        others => format!(" {} other ranks also differ.", count(others as u64)),
    }
}

/// The name of a rank in its job.
pub(super) fn name_of(of: &[Outlier]) -> String {
    let rank = of.first().map(|of| of.rank);
    format!("Rank {}", rank.unwrap_or_default())
}

/// One rank that differs, by one metric or several.
pub(super) fn told(name: &str, of: &[Outlier], source: &mut Source, terminal: Terminal) -> String {
    let parts = of.iter().map(|of| {
        format!(
            "{} {}{}",
            plus(of.off_bytes),
            of.metric.word(),
            since(of.since)
        )
    });
    let head = format!("{name}: {}", parts.collect::<Vec<_>>().join("; "));
    let mut out = terminal.paint(Style::Strong, &head) + "\n";
    let (left, right) = (Align::Left, Align::Right);
    let mut table = Table::new(&[right, right, right, left]).elastic(&[3]);
    table
        .row(["more", "it has", "peers have", ""])
        .style_row(Style::Faint);
    for of in of {
        let name = format!(
            "{}, of {}",
            of.metric.word(),
            many(of.peer_count as u64, "rank", "ranks")
        );
        table.row([
            &plus(of.off_bytes),
            &signed(of.bytes),
            &signed(of.peers.median),
            &name,
        ]);
        table.style_row(Style::Strong);
        for row in of.differences.iter().filter(|row| of.metric.has(row.of)) {
            let name = match row.of {
                Of::Category => format!("  category: {}", row.name),
                Of::Module => format!("  module: {}", row.name),
                Of::Symmetric => format!("  {} (symmetric memory)", row.name),
                Of::Line | Of::Pool | Of::Nccl | Of::Outside => format!("  {}", row.name),
            };
            let text = row.place.as_ref();
            let text = text.map(|place| source.line(&place.file, place.line));
            let text = text.filter(|text| !text.is_empty());
            let place = name.find(" (").unwrap_or(name.len());
            let cell = match text {
                Some(text) => format!("{name}  {text}"),
                None => name,
            };
            table.row([
                &plus(row.off()),
                &bytes(row.bytes),
                &bytes(row.median_bytes),
                &cell,
            ]);
            if row.place.is_some() {
                table.place(3, cell.len() - place);
            }
        }
    }
    out.push_str(&table.render(terminal, 2));
    out.push('\n');
    out
}

/// The line or library with most of a difference.
fn largest(of: &Outlier) -> Option<&Difference> {
    of.differences.iter().find(|row| {
        let is_place = !matches!(row.of, Of::Category | Of::Module);
        is_place && of.metric.has(row.of) && row.off().signum() == of.off_bytes.signum()
    })
}
