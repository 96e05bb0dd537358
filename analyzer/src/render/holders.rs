//! Who kept the memory at a failure, as text.

use super::{Align, Style, Table, Terminal, bytes, count, percent};
use crate::views::{Holders, PeakHolders};

/// The maximum number of rows.
const ROWS: usize = 10;

/// A table of the objects that kept the tensors at a failure; nothing without a walk.
pub fn holders_text(holders: Option<&Holders>, terminal: Terminal) -> String {
    table(holders, "Who kept the tensors at the failure", terminal)
}

/// The same near a peak.
pub(super) fn peak_holders_text(of: &PeakHolders, peak: u64, terminal: Terminal) -> String {
    let title = format!(
        "Who kept the tensors after event {}: {} of {} at the peak",
        count(of.event),
        bytes(of.holders.live_bytes),
        bytes(peak)
    );
    table(Some(&of.holders), &title, terminal)
}

fn table(holders: Option<&Holders>, title: &str, terminal: Terminal) -> String {
    let Some(holders) = holders.filter(|holders| !holders.rows.is_empty()) else {
        return String::new();
    };
    let mut out = String::from("\n");
    out.push_str(&terminal.paint(Style::Strong, title));
    out.push('\n');
    let (left, right) = (Align::Left, Align::Right);
    let mut table = Table::new(&[right, right, right, left, left])
        .elastic(&[4, 3])
        .shed(&[4]);
    let heads = ["bytes", "share", "blocks", "holder", "where"];
    table.row(heads).style_row(Style::Faint);
    let mut row = |held: u64, blocks: &str, text: &str, place: &str| {
        let share = percent(held, holders.live_bytes);
        table.row([&bytes(held), &share, blocks, text, place]);
    };
    for holder in holders.rows.iter().take(ROWS) {
        row(
            holder.bytes,
            &count(holder.blocks),
            &holder.name(),
            &holder.place,
        );
    }
    let shown = holders.rows.iter().take(ROWS);
    let shown = shown.fold(0_u64, |sum, of| sum.saturating_add(of.bytes));
    let rest = holders.live_bytes.saturating_sub(shown);
    if rest > 0 {
        row(rest, "", "others, or no Python object", "");
    }
    out.push_str(&table.render(terminal, 2));
    if let Some(why) = holders.why_cut() {
        out.push_str(&format!("The search was not completed: {why}.\n"));
    }
    out
}
