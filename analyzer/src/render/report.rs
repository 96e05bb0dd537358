//! The report: what ran, how exact it is, the ledger of each device at its peak, the lines that own the peak, and the
//! largest changes by line.

use gpumem_capture::{DeviceOrdinal, EventFlags, Level, ProcessKey};

use super::cause::{cause_text, statement};
use super::holders::peak_holders_text;
use super::{
    ShownLines, Source, Style, Terminal, account_lines, bytes, caveats, changes_table, hints_text,
    ledger_text, lines_table, moment, signed, split_text, what_ran,
};
use crate::account::{many, when_of};
use crate::attribution::owner;
use crate::replay::{OutOfMemory, Replay};
use crate::session::Session;
use crate::views::{
    Cause, Change, HintKind, Hints, Kind, Ledger, PeakHolders, Summary, lines_at_peak, when,
};

/// How many lines are shown for each device.
const LINES: usize = 8;
/// How many lines are shown regardless of their size.
const LEAST_LINES: usize = 3;
/// The part of the level, as a divisor, from which parts of a line are shown.
const PART: u64 = 20;
/// Smaller changes have no row.
const LEAST: u64 = 1 << 20;

/// The largest changes, each with the number of similar ones, and the total number of changes.
pub struct ReportChanges {
    /// The changes to show, by time.
    pub shown: Vec<(Change, u64)>,
    /// Changes in the capture.
    pub seen: u64,
}

/// The report as text; `file` is the capture's name.
pub fn report_text(
    file: &str,
    session: &Session,
    cause: Option<&Cause>,
    ledgers: &[Ledger],
    changes: &ReportChanges,
    hints: &Hints,
    terminal: Terminal,
) -> String {
    let replay = &session.replay;
    let summary = Summary::of(session);
    let mut source = Source::new(&replay.names, &session.header);
    let mut out = caveats(&session.account, terminal);
    let failures = failures(replay, cause, file, terminal);
    let survived = cause.is_some_and(|cause| cause.survived);
    if !survived {
        out.push_str(&failures);
    }
    out.push_str(&peak(replay, ledgers, terminal));
    out.push_str(&what_ran(file, &summary, terminal));
    out.push_str(&account_lines(&session.account, terminal));
    if survived {
        out.push('\n');
        out.push_str(failures.trim_end());
        out.push('\n');
    }
    if ledgers.is_empty() {
        out.push_str("\nNo GPU memory was allocated.\n");
    }
    for ledger in ledgers {
        out.push('\n');
        out.push_str(&ledger_text(replay, ledger, &mut source, terminal));
        out.push('\n');
        out.push_str(&device_lines(file, replay, ledger, &mut source, terminal));
        let device = DeviceOrdinal(ledger.device);
        if let Some(holders) = PeakHolders::of(&replay.names, device) {
            let peak = replay.counters(device, Level::TENSOR).peak;
            out.push_str(&peak_holders_text(&holders, peak, terminal));
        }
    }
    // The cause of a failure is shown above; the command `changes` shows what led to it.
    if cause.is_none() && !changes.shown.is_empty() {
        let title = "Largest changes, in order of time";
        let devices = ledgers.len() > 1;
        let extents = changes.shown.iter().map(|(change, _)| change.extent());
        let greatest = extents.max().unwrap_or(0);
        let large = changes.shown.iter();
        let large = large.filter(|(change, _)| change.extent() >= LEAST.min(greatest));
        let large: Vec<(&Change, u64)> = large.map(|(change, times)| (change, *times)).collect();
        let shown = large.iter().map(|(_, times)| times).sum();
        out.push('\n');
        out.push_str(&changes_table(
            &large,
            title,
            devices,
            &replay.names,
            terminal,
        ));
        if let Some(more) = changes.seen.checked_sub(shown).filter(|more| *more > 0) {
            let more = many(more, "more change", "more changes");
            out.push_str(&format!("  … {more}, see gpumem-analyze changes {file}\n"));
        }
    }
    // Retries are shown above.
    let mut hints = hints.clone();
    hints.hints.retain(|hint| hint.kind != HintKind::Retries);
    if !hints.hints.is_empty() {
        out.push_str(&format!("\n{}\n", terminal.paint(Style::Strong, "Hints")));
        let devices = ledgers.len() > 1;
        let told = hints_text(&hints, devices, &replay.names, &mut source, terminal);
        out.push_str(&told);
    }
    out
}

/// The GPU with the largest peak, and the line with most of it.
fn peak(replay: &Replay, ledgers: &[Ledger], terminal: Terminal) -> String {
    let Some(most) = ledgers.iter().max_by_key(|ledger| ledger.bytes) else {
        return String::new();
    };
    let of = most
        .total_bytes
        .map(|total| format!(" of {}", bytes(total)));
    let mut text = format!(
        "{}{} on GPU {}{}",
        bytes(most.bytes),
        of.unwrap_or_default(),
        most.device,
        when(&most.when)
    );
    let tensors = most.rows.iter().find(|row| row.kind == Kind::Tensors);
    if let Some(tensors) = tensors.filter(|row| row.bytes > 0) {
        text.push_str(&format!("; tensors {}", signed(tensors.bytes)));
    }
    let (lines, _) = lines_at_peak(replay, most);
    if let Some(first) = lines.rows.first() {
        text.push_str(&format!(
            ", most at {} ({})",
            first.owner.label(&replay.names),
            bytes(first.bytes)
        ));
    }
    if ledgers.len() > 1 {
        let others = many(ledgers.len() as u64 - 1, "other GPU", "other GPUs");
        text.push_str(&format!("; {others} below"));
    }
    format!("{}         {text}\n", terminal.paint(Style::Strong, "peak"))
}

/// The lines that own a device's peak: of tensors, or of the driver level without tensors.
fn device_lines(
    file: &str,
    replay: &Replay,
    ledger: &Ledger,
    source: &mut Source,
    terminal: Terminal,
) -> String {
    let (lines, split) = lines_at_peak(replay, ledger);
    let what = match lines.level == Level::TENSOR {
        true => "tensors",
        false => "driver level",
    };
    let title = format!("Lines that own the peak ({what})");
    if lines.rows.is_empty() {
        return String::new();
    }
    // Lines with less than half a percent are merged.
    let large = lines.rows.iter().take(LINES);
    let large = large.take_while(|row| row.bytes >= lines.bytes() / 200);
    let shown = large.count().max(LEAST_LINES);
    let mut out = lines_table(
        &lines.rows,
        ShownLines {
            lines: shown,
            least_part: lines.bytes() / PART,
            devices: false,
        },
        &title,
        &replay.names,
        source,
        terminal,
    );
    if let Some(rest) = lines.rows.get(shown..).filter(|rest| !rest.is_empty()) {
        let sum = rest.iter().map(|row| row.bytes).sum();
        let more = many(rest.len() as u64, "more line", "more lines");
        out.push_str(&format!(
            "  … {more} with {}, see gpumem-analyze lines {file}\n",
            bytes(sum)
        ));
    }
    if let Some(split) = &split {
        out.push('\n');
        out.push_str(&split_text(split, terminal));
    }
    for (_, sum, figure) in &lines.mismatches {
        out.push_str(&terminal.paint(
            Style::Bad,
            &format!(
                "  the lines sum to {sum} bytes, but the level has {figure}: data is missing\n"
            ),
        ));
    }
    out
}

/// A note if the limit caused the failure and not the card.
fn by_limit(replay: &Replay, failure: &OutOfMemory) -> String {
    if !failure.is_by_limit() {
        return String::new();
    }
    match replay.limit_of(failure.event.device) {
        Some(limit) => format!(", because of the limit of {} (GPUMEM_LIMIT)", bytes(limit)),
        None => ", because of the limit in force (GPUMEM_LIMIT)".into(),
    }
}

/// What a failed allocation was for.
fn wanted(failure: &OutOfMemory) -> String {
    match (failure.event.level, failure.event.bytes) {
        _ if failure.is_by_text() => {
            "memory of unknown size (kernel code or stacks, a stream, an event)".to_owned()
        }
        (Level::PHYSICAL, _) if failure.event.flags.contains(EventFlags::MODULE) => {
            "kernel code".to_owned()
        }
        (Level::PHYSICAL, 0) => "a context".to_owned(),
        (Level::PHYSICAL, takes) => format!("a context, which takes {},", bytes(takes)),
        (_, asked) => bytes(asked),
    }
}

/// The failure that may have ended the program, with its cause, and the number of others.
fn failures(replay: &Replay, cause: Option<&Cause>, file: &str, terminal: Terminal) -> String {
    let Some((_, main)) = replay.main_failure() else {
        return answered(replay);
    };
    let survived = cause.is_some_and(|cause| cause.survived);
    let mut out = failure_line(replay, &main, survived, terminal);
    if let Some(cause) = cause {
        out.push_str(&cause_text(cause, terminal));
    }
    let more = replay.failures.count() - 1;
    if more > 0 {
        let more = many(more, "more failed allocation", "more failed allocations");
        out.push_str(&format!(
            "… {more}: gpumem-analyze oom --failure N {file}\n"
        ));
    }
    out.push_str(&answered(replay));
    out.push('\n');
    out
}

/// After the text of a failure that the program survived.
pub const WENT_ON: &str = "; the program went on";

/// A statement about a failure; `survived`: whether the program went on.
pub fn failure_line(
    replay: &Replay,
    failure: &OutOfMemory,
    survived: bool,
    terminal: Terminal,
) -> String {
    let text = failure_text(replay, failure);
    match survived {
        false => statement("OUT OF MEMORY", Style::Bad, &text, terminal),
        true => {
            let text = text + WENT_ON;
            statement("out of memory", Style::Strong, &text, terminal)
        }
    }
}

/// The same without the label.
pub fn failure_text(replay: &Replay, failure: &OutOfMemory) -> String {
    let event = &failure.event;
    let fact = |key| replay.names.fact(key);
    let owner = owner(&replay.names, failure.span_context.stacks, event.level);
    let function = match owner.function() {
        "" => String::new(),
        function => format!(" {function}"),
    };
    let refused = match failure.refusals {
        0 => String::new(),
        times => format!(
            ", after the driver refused it {}",
            many(times, "time", "times")
        ),
    };
    let rank = match (fact(ProcessKey::RANK), fact(ProcessKey::WORLD_SIZE)) {
        (_, Some("1")) => String::new(),
        (Some(rank), Some(size)) => format!(", rank {rank} of {size}"),
        (Some(rank), None) => format!(", rank {rank}"),
        _ => String::new(),
    };
    format!(
        "{} requested at {}{function}, {}{}, on {}{rank} ({} level){}{refused}",
        wanted(failure),
        owner.label(&replay.names),
        moment(failure.seq.0, event.time),
        when(&when_of(replay, failure.span_context)),
        crate::account::place(event.device),
        event.level,
        by_limit(replay, failure),
    )
}

/// Failures that PyTorch's allocator handled without an error in the program.
pub fn answered(replay: &Replay) -> String {
    match replay.failures.answered() {
        0 => String::new(),
        times => format!(
            "{} by PyTorch's allocator: the driver refused the request,\nPyTorch freed its cache, and the request then succeeded.\n",
            many(times, "retry", "retries")
        ),
    }
}
