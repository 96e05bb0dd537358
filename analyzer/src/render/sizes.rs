//! Sizes of blocks, as text.

use gpumem_capture::Level;

use super::{Align, Style, Table, Terminal, bytes, count};
use crate::account::place;
use crate::views::{SizeRow, SizesOn};

/// Characters of the longest bar.
const BAR: usize = 20;

/// A histogram for each GPU. `when` is the point in time of live blocks and the requested part.
pub fn sizes_text(level: Level, found: &[SizesOn], when: &str, terminal: Terminal) -> String {
    let mut out = String::new();
    for (index, on) in found.iter().enumerate() {
        out.push_str(if index > 0 { "\n" } else { "" });
        let title = format!(
            "Sizes of blocks of the {level} level on {}",
            place(on.ordinal)
        );
        out.push_str(&terminal.paint(Style::Strong, &title));
        out.push_str(&format!("; live {when}\n"));
        let (left, right) = (Align::Left, Align::Right);
        let mut table = Table::new(&[right, right, right, left, right, right, left]);
        let heads = ["size", "allocated", "bytes", "", "live", "bytes", ""];
        table.row(heads).style_row(Style::Faint);
        let most = |of: fn(&SizeRow) -> u64| on.rows.iter().map(of).max().unwrap_or(0);
        let most_allocated = most(|row| row.allocated_bytes);
        let most_live = most(|row| row.live_bytes);
        for row in &on.rows {
            table.row([
                &size(row),
                &count(row.allocations),
                &bytes(row.allocated_bytes),
                "",
                &count(row.live_blocks),
                &bytes(row.live_bytes),
                "",
            ]);
            table.bar(3, row.allocated_bytes, most_allocated, BAR).bar(
                6,
                row.live_bytes,
                most_live,
                BAR,
            );
        }
        table.row([
            "together",
            &count(on.allocations),
            &bytes(on.allocated_bytes),
            "",
            &count(on.live_blocks),
            &bytes(on.live_bytes),
            "",
        ]);
        table.style_row(Style::Strong);
        out.push_str(&table.render(terminal, 2));
    }
    out
}

/// A size such as `1.00 MiB`, or a range such as `1.00 MiB to 2.00 MiB`, without its end.
fn size(row: &SizeRow) -> String {
    if row.from_bytes == row.to_bytes {
        return exactly(row.from_bytes);
    }
    let next = row.to_bytes.saturating_add(1);
    format!("{} to {}", short(row.from_bytes), short(next))
}

/// A power of two.
fn short(power: u64) -> String {
    let unit = power.checked_ilog2().map_or(0, |power| power / 10 * 10);
    let names = ["B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
    format!("{} {}", power >> unit, names[(unit / 10) as usize])
}

/// An exact size, with a larger unit if that loses nothing.
fn exactly(size: u64) -> String {
    let unit = size.trailing_zeros().min(60) / 10 * 10;
    if size == 0 || unit == 0 {
        return format!("{} B", count(size));
    }
    let names = ["KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
    format!(
        "{} {}",
        count(size >> unit),
        names[(unit / 10) as usize - 1]
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_told_to_the_byte_or_with_both_ends() {
        for (size, said) in [
            (0, "0 B"),
            (513, "513 B"),
            (2048, "2 KiB"),
            (1_048_577, "1,048,577 B"),
            (20 << 20, "20 MiB"),
            (1536 << 20, "1,536 MiB"),
            (1 << 63, "8 EiB"),
        ] {
            assert_eq!(exactly(size), said);
        }
        assert_eq!(
            (short(1), short(512), short(1 << 20)),
            ("1 B".into(), "512 B".into(), "1 MiB".into())
        );
        assert_eq!(short(u64::MAX), "15 EiB");
    }
}
