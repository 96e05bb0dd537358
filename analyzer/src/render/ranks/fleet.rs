//! Ranks of many runs that differ from their peers, as text.

use super::outlier::{also_differ, difference, told};
use crate::account::many;
use crate::fleet::{FleetOutliers, Outlying};
use crate::render::{Source, Style, Terminal};
use crate::source::Readable;

/// The rank that differs most, followed by each rank.
pub fn fleet_outliers_text(found: &FleetOutliers, terminal: Terminal) -> String {
    let [first, others @ ..] = &found.ranks[..] else {
        let of = format!(
            "No rank differs from its peers ({} of {}).",
            many(found.captures, "capture", "captures"),
            many(found.runs, "run", "runs")
        );
        return terminal.paint(Style::Good, &of) + "\n";
    };
    let head = difference(&name(first), &first.outliers) + &also_differ(others.len());
    let mut out = terminal.paint(Style::Bad, &head) + "\n\n";
    let mut source = Source::of_job(&Readable::NONE);
    let ranks = found.ranks.iter();
    let ranks = ranks.map(|of| {
        let peers = match of.peers.as_str() {
            "" => String::new(),
            peers => format!(" ({peers})"),
        };
        let name = name(of) + &peers;
        told(&name, &of.outliers, &mut source, terminal)
    });
    out.extend(ranks);
    out.truncate(out.trim_end().len());
    out + "\n"
}

fn name(of: &Outlying) -> String {
    format!("Rank {} of {}", of.rank, of.run)
}
