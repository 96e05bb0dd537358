//! The ledger as text.

use gpumem_capture::Level;

use super::{Align, Source, Style, Table, Terminal, bytes, moment, percent, signed, time};
use crate::attribution::Owner;
use crate::replay::{Category, Replay};
use crate::views::{Kind, Ledger, LedgerAt, LedgerRow, Pool, when};
use gpumem_capture::Nanos;

/// Columns of a full bar.
const BAR: usize = 16;
/// How many jumps of the unexplained bytes are shown.
const JUMPS: usize = 5;
/// How many segments are shown.
const SEGMENTS: usize = 40;
/// Lines shown for each segment.
const PINNING: usize = 3;
/// How many categories of tensors are shown separately.
const CATEGORIES: usize = 4;
/// Categories with less than 1 / `SMALL` of the tensors are merged.
const SMALL: u64 = 50;
/// How many lines of the pool are shown.
const LINES: usize = 20;

/// A device's ledger.
pub fn ledger_text(
    replay: &Replay,
    ledger: &Ledger,
    source: &mut Source,
    terminal: Terminal,
) -> String {
    let mut out = terminal.paint(Style::Strong, &title(ledger));
    out.push('\n');
    let part = |row: &LedgerRow| row.bytes.max(0) as u64;
    let whole = ledger.rows.iter().map(part).sum();
    let (left, right) = (Align::Left, Align::Right);
    let mut table = Table::new(&[left, right, right, left, left])
        .elastic(&[4, 0])
        .shed(&[3]);
    for row in &ledger.rows {
        let share = percent(part(row), whole);
        let detail = detail(replay, row, source);
        table.row([&row.name, &signed(row.bytes), &share, "", &detail.text]);
        table
            .bar(3, part(row), ledger.bytes, BAR)
            .style(4, Style::Faint)
            .keep(0);
        match detail.note {
            Some(note) => table.place(4, note),
            None => table.keep(4),
        };
        if row.kind == Kind::Line {
            table.place(0, 0);
        }
        if row.kind == Kind::Tensors {
            categories(ledger, &mut table);
            workspaces(replay, ledger, source, &mut table);
        }
    }
    if ledger.unexplained_bytes.is_none() {
        table.row(["unexplained", "not measured", "", "", ""]);
    }
    if ledger.managed_bytes > 0 && ledger.unexplained_bytes.is_none() {
        let managed = bytes(ledger.managed_bytes);
        table.row([
            "managed memory, not in the sum: its location is not known",
            &managed,
            "",
            "",
            "",
        ]);
    }
    if ledger.alias_bytes > 0 {
        let alias = bytes(ledger.alias_bytes);
        table.row([
            "aliases of memory owned elsewhere, not in the sum",
            &alias,
            "",
            "",
            "",
        ]);
    }
    if ledger.host_bytes > 0 {
        let host = bytes(ledger.host_bytes);
        table.row(["pinned host memory, not on the card", &host, "", "", ""]);
    }
    out.push_str(&table.render(terminal, 2));
    for note in notes(replay, ledger, source) {
        out.push_str(&format!("  {}\n", terminal.paint(Style::Faint, &note)));
    }
    out
}

/// The categories of tensors, as parts of the row above. Workspaces have a separate row.
fn categories(ledger: &Ledger, table: &mut Table) {
    let known = ledger.categories_told_apart().iter();
    let mut known: Vec<_> = known
        .filter(|of| of.category != Category::Workspace)
        .collect();
    let sum: u64 = known.iter().map(|of| of.bytes).sum();
    let large = known.iter().take_while(|of| of.bytes >= sum / SMALL);
    let large = large.count().min(CATEGORIES);
    let rest = known.split_off(large);
    let rest: u64 = rest.iter().map(|of| of.bytes).sum();
    let rows = known.iter().map(|of| (of.category.name(), of.bytes));
    for (name, held) in rows.chain((rest > 0).then_some(("others", rest))) {
        table.row([&format!("  {name}"), &bytes(held), "", "", ""]);
        table.style_row(Style::Faint);
    }
}

/// cuBLAS workspaces among the tensors, as a part of the row above.
fn workspaces(replay: &Replay, ledger: &Ledger, source: &mut Source, table: &mut Table) {
    let Some(workspaces) = &ledger.workspaces else {
        return;
    };
    let place = workspaces.owner.label(&replay.names);
    let mut most = place.clone();
    if let Some(line) = workspaces.owner.line() {
        let text = source.line(&line.file, line.line);
        most = format!("{most}  {text}").trim_end().to_owned();
    }
    let bytes = bytes(workspaces.bytes);
    table.row(["  of which cuBLAS workspaces", &bytes, "", "", &most]);
    table
        .style_row(Style::Faint)
        .place(4, most.len() - place.len());
}

fn title(ledger: &Ledger) -> String {
    let moment = ledger
        .moment()
        .map(|(seq, time)| format!("{}{}", moment(seq.0, time), when(&ledger.when)))
        .unwrap_or_default();
    let of = ledger
        .total_bytes
        .map(|total| format!(" of {}", bytes(total)))
        .unwrap_or_default();
    let when = match ledger.at {
        LedgerAt::Peak => format!("at its peak, {moment}"),
        LedgerAt::PeakOf(Level::TENSOR) => format!("at its tensors' peak, {moment}"),
        LedgerAt::PeakOf(level) => format!("at its {level} level's peak, {moment}"),
        LedgerAt::End => format!("at the end, {moment}"),
        LedgerAt::At(_) => format!("at {moment}"),
    };
    format!("GPU {} {when}: {}{of}", ledger.device, bytes(ledger.bytes))
}

/// The text after a row's bar.
struct Detail {
    text: String,
    /// For a line of code: the number of bytes at the end that follow the place.
    note: Option<usize>,
}

fn detail(replay: &Replay, row: &LedgerRow, source: &mut Source) -> Detail {
    let owner = row.owner.as_ref();
    let (place, code) = match owner.and_then(|owner| Some((owner, owner.line()?))) {
        Some((owner, line)) => {
            let code = source.line(&line.file, line.line);
            match row.kind {
                Kind::Line => (String::new(), code),
                _ => (owner.label(&replay.names), code),
            }
        }
        None => (String::new(), String::new()),
    };
    let line = format!("{place}  {code}").trim().to_owned();
    let (text, note) = match &row.detail {
        Some(detail) if row.kind == Kind::Line && !line.is_empty() => {
            (format!("{line}   {detail}"), None)
        }
        Some(detail) if line.is_empty() => (detail.clone(), None),
        Some(detail) => (format!("{detail}, {line}"), None),
        None => (line.clone(), Some(line.len() - place.len())),
    };
    let note = note.filter(|_| !place.is_empty());
    Detail { text, note }
}

/// The notes below the table: the sources and limits of the figures.
fn notes(replay: &Replay, ledger: &Ledger, source: &mut Source) -> Vec<String> {
    let mut notes = Vec::new();
    if let (Some(reading), Some(at)) = (&ledger.reading, ledger.time_ns) {
        let apart = millis(reading.time_ns.abs_diff(at));
        let mut note = match reading.time_ns.cmp(&at) {
            std::cmp::Ordering::Less => format!("NVML was read {apart} earlier"),
            std::cmp::Ordering::Equal => "NVML was read at the same time".into(),
            std::cmp::Ordering::Greater => format!("NVML was read {apart} later"),
        };
        let physical = ledger.physical_bytes.unwrap_or(reading.physical_bytes);
        let moved = reading.physical_bytes.abs_diff(physical);
        let direction = if reading.physical_bytes > physical {
            "more"
        } else {
            "less"
        };
        if moved > 0 {
            note.push_str(&format!(
                ", when the physical level was {} {direction}",
                bytes(moved)
            ));
        }
        if moved == 0 && reading.time_ns < at {
            note.push_str(", and the physical level is unchanged since");
        }
        if reading.estimated {
            note.push_str("; its figures are estimates");
        }
        notes.push(note);
    }
    if let Some(at) = ledger.contexts_and_code_ns {
        notes.push(format!(
            "contexts and code are those of the reading at {}",
            time(Nanos(at))
        ));
    }
    if ledger.driver_peak_bytes > ledger.bytes {
        let peak = bytes(ledger.driver_peak_bytes);
        notes.push(format!("peak of the driver level: {peak}"));
    }
    let jumps = ledger.jumps.iter().take(JUMPS);
    if ledger
        .jumps
        .iter()
        .any(|jump| jump.bytes.unsigned_abs() > 0)
    {
        notes.push("largest changes of the unexplained bytes, over the whole run:".into());
    }
    for jump in jumps {
        let span = format!(
            "{} and {}",
            time(Nanos(jump.from_ns)),
            time(Nanos(jump.time_ns))
        );
        let line = match &jump.owner {
            Some(owner @ Owner::Line(line, _)) => {
                let text = source.line(&line.file, line.line);
                format!(", after {}  {text}", owner.label(&replay.names))
                    .trim_end()
                    .to_owned()
            }
            Some(Owner::Library(library)) => format!(", after a call of {library}"),
            _ => String::new(),
        };
        let sign = if jump.bytes > 0 { "+" } else { "" };
        notes.push(format!(
            "  {sign}{} between {span}{line}",
            signed(jump.bytes)
        ));
    }
    notes
}

fn millis(nanos: u64) -> String {
    if nanos >= 1_000_000_000 {
        format!("{:.1} s", nanos as f64 / 1e9)
    } else {
        format!("{:.1} ms", nanos as f64 / 1e6)
    }
}

/// PyTorch's pool: its segments, and the lines that pin them.
pub fn pool_text(
    replay: &Replay,
    device: u8,
    pool: &Pool,
    source: &mut Source,
    terminal: Terminal,
) -> String {
    let title = format!(
        "PyTorch's pool on GPU {device}: {} reserved, {} unallocated, largest free block {}, {} that empty_cache would free",
        bytes(pool.reserved_bytes),
        bytes(pool.cached_bytes),
        bytes(pool.largest_free_block_bytes),
        bytes(pool.reclaimable_bytes),
    );
    let (left, right) = (Align::Left, Align::Right);
    let mut out = format!("{}\n", terminal.paint(Style::Strong, &title));
    let mut table = Table::new(&[left, right, right, right, right, left]).elastic(&[5]);
    let heads = [
        "segment",
        "bytes",
        "live",
        "largest free",
        "pinned",
        "pinned by",
    ];
    table.row(heads).style_row(Style::Faint);
    for segment in pool.segments.iter().take(SEGMENTS) {
        let mut by: Vec<String> = segment
            .lines
            .iter()
            .take(PINNING)
            .map(|line| format!("{} {}", line.owner.label(&replay.names), bytes(line.bytes)))
            .collect();
        if let Some(more) = segment
            .lines
            .len()
            .checked_sub(PINNING)
            .filter(|more| *more > 0)
        {
            by.push(format!("{more} more"));
        }
        let by = by.join(", ");
        let note = by.find([',', ' ']).map_or(0, |note| by.len() - note);
        let kind = if segment.expandable {
            " expandable"
        } else {
            ""
        };
        table.row([
            &format!("{:#x}{kind}", segment.address),
            &bytes(segment.bytes),
            &bytes(segment.live_bytes),
            &bytes(segment.largest_free_block_bytes),
            &bytes(segment.pinned_bytes),
            &by,
        ]);
        table.place(5, note);
    }
    out.push_str(&table.render(terminal, 2));
    if let Some(rest) = pool
        .segments
        .get(SEGMENTS..)
        .filter(|rest| !rest.is_empty())
    {
        let sum = rest.iter().map(|segment| segment.bytes).sum();
        out.push_str(&format!(
            "  … {} more segments with {}\n",
            rest.len(),
            bytes(sum)
        ));
    }
    if pool.lines.is_empty() {
        return out;
    }
    out.push_str(
        "  Memory that PyTorch could return to the driver if the tensors of one line were freed\n",
    );
    let mut table = Table::new(&[left, right, right, right, left])
        .elastic(&[4, 0])
        .shed(&[4]);
    let heads = ["line", "returned", "tensors", "segments", ""];
    table.row(heads).style_row(Style::Faint);
    for line in pool.lines.iter().take(LINES) {
        let text = match line.owner.line() {
            Some(at) => source.line(&at.file, at.line),
            None => String::new(),
        };
        table.row([
            &line.owner.label(&replay.names),
            &bytes(line.given_back_bytes),
            &bytes(line.bytes),
            &line.segments.to_string(),
            &text,
        ]);
        table
            .place(0, line.owner.note().len())
            .style(4, Style::Faint);
    }
    out.push_str(&table.render(terminal, 2));
    if let Some(more) = pool.lines.len().checked_sub(LINES).filter(|more| *more > 0) {
        out.push_str(&format!("  … {more} more lines\n"));
    }
    out
}
