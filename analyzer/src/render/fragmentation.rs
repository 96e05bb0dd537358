//! PyTorch's pool as a map of its segments, and over time.

use gpumem_capture::Nanos;

use super::{Align, Style, Table, Terminal, bytes, count, moment, percent};
use crate::account::many;
use crate::replay::Replay;
use crate::views::{FragmentedAt, FragmentedSegment, ReservedOverTime};

/// Segments shown.
const SEGMENTS: usize = 40;
/// Cells of a segment's map; fewer if the terminal is narrower than [`WIDE`].
const CELLS: u64 = 32;
const FEWER_CELLS: u64 = 16;
const WIDE: usize = 100;
/// Characters of the longest bar.
const BAR: usize = 20;

/// The pool at a point in time. `when` is a phrase such as `at the peak`.
pub fn pool_map_text(
    replay: &Replay,
    device: u8,
    now: &FragmentedAt,
    when: &str,
    terminal: Terminal,
) -> String {
    let title = format!(
        "PyTorch's pool on GPU {device} {when}: {} reserved, {} live, {} free",
        bytes(now.reserved_bytes),
        bytes(now.live_bytes),
        bytes(now.free_bytes),
    );
    let mut out = format!("{}\n", terminal.paint(Style::Strong, &title));
    out.push_str(&format!("  {}\n", pieces(now)));
    if now.segments.is_empty() {
        return out;
    }
    let (left, right) = (Align::Left, Align::Right);
    let mut table = Table::new(&[left, right, right, right, left, left]).elastic(&[5]);
    let map = "used and free";
    table.row(["segment", "bytes", "free", "largest", map, "pinned by"]);
    table.style_row(Style::Faint);
    for row in now.segments.iter().take(SEGMENTS) {
        let segment = &row.segment;
        let kind = if segment.expandable {
            " expandable"
        } else {
            ""
        };
        let by = segment.lines.first().map_or(String::new(), |first| {
            let label = first.owner.label(&replay.names);
            match segment.lines.len() - 1 {
                0 => label,
                more => format!("{label}, {more} more"),
            }
        });
        let note = by.find([',', ' ']).map_or(0, |note| by.len() - note);
        table.row([
            &format!("{:#x}{kind}", segment.address),
            &bytes(segment.bytes),
            &bytes(segment.cached_bytes),
            &bytes(segment.largest_free_block_bytes),
            &cells(row, cells_of(terminal)),
            &by,
        ]);
        table.style(4, Style::Bar).place(5, note);
    }
    out.push_str(&table.render(terminal, 2));
    if let Some(rest) = now.segments.get(SEGMENTS..).filter(|rest| !rest.is_empty()) {
        let sum = rest.iter().map(|row| row.segment.bytes).sum();
        let more = many(rest.len() as u64, "more segment", "more segments");
        out.push_str(&format!("  … {more} with {}\n", bytes(sum)));
    }
    out
}

/// A summary such as `358 MiB free in 24 pieces, the largest 128 MiB: 64 % is in others; 30.0 MiB …`.
fn pieces(now: &FragmentedAt) -> String {
    if now.free_bytes == 0 {
        return "no free memory".into();
    }
    format!(
        "{} in {}, the largest {}: {} of the free memory is in other blocks; {} is in blocks smaller than {}",
        bytes(now.free_bytes),
        many(now.free_blocks, "free block", "free blocks"),
        bytes(now.largest_free_block_bytes),
        percent(
            now.free_bytes - now.largest_free_block_bytes,
            now.free_bytes
        ),
        bytes(now.too_small_bytes),
        bytes(now.request_bytes),
    )
}

/// Cells of a segment's map.
fn cells_of(terminal: Terminal) -> u64 {
    match terminal.width {
        Some(width) if width < WIDE => FEWER_CELLS,
        _ => CELLS,
    }
}

/// `█` is full, `▓▒░` partly used, `·` free.
fn cells(row: &FragmentedSegment, cells: u64) -> String {
    let cell = |eighths: u8| match eighths {
        0 => '·',
        1..=2 => '░',
        3..=5 => '▒',
        6..=7 => '▓',
        _ => '█',
    };
    row.map(cells).into_iter().map(cell).collect()
}

/// The pool over time, and at important points in time.
pub fn over_time_text(
    over_time: &ReservedOverTime,
    at_peak: Option<&FragmentedAt>,
    terminal: Terminal,
) -> String {
    let peak = over_time.reserved_peak;
    let when = moment(peak.seq, Nanos(peak.time_ns));
    let title = format!(
        "Peak of reserved memory at {when}: {}",
        bytes(peak.reserved_bytes)
    );
    let mut out = format!("{}\n", terminal.paint(Style::Strong, &title));
    out.push_str(&match at_peak {
        Some(then) => format!("  {} live; {}\n", bytes(peak.live_bytes), pieces(then)),
        None => format!(
            "  {} live, {} free\n",
            bytes(peak.live_bytes),
            bytes(peak.free_bytes)
        ),
    });
    for failure in &over_time.failures {
        let figures = failure.figures;
        let when = moment(figures.seq, Nanos(figures.time_ns));
        out.push_str(&format!(
            "{} {} at {when}: {} reserved, {} live, {} free\n",
            terminal.paint(Style::Bad, "Failed request of"),
            bytes(failure.requested_bytes),
            bytes(figures.reserved_bytes),
            bytes(figures.live_bytes),
            bytes(figures.free_bytes),
        ));
    }
    out.push_str(&terminal.paint(
        Style::Strong,
        "Over time: each interval when its free memory was largest",
    ));
    out.push('\n');
    let (left, right) = (Align::Left, Align::Right);
    let mut table = Table::new(&[left, right, right, right, right, left]);
    table.row(["time", "event", "reserved", "live", "free", ""]);
    table.style_row(Style::Faint);
    for time in &over_time.times {
        let figures = time.figures;
        table.row([
            &super::time(Nanos(figures.time_ns)),
            &count(figures.seq),
            &bytes(figures.reserved_bytes),
            &bytes(figures.live_bytes),
            &bytes(figures.free_bytes),
            "",
        ]);
        table.bar(5, figures.free_bytes, peak.reserved_bytes, BAR);
    }
    out.push_str(&table.render(terminal, 2));
    out
}
