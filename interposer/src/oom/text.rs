//! The lines on stderr: at most fifty.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;

use gpumem_capture::{Event, EventFlags, Level, StackId};
use gpumem_judge::Kind;
use gpumem_replay::units::{bytes, count, percent};

use super::figures::{Figures, Held};
use super::lines::Lines;
use super::recorded::Recorded;
use super::verdict::Verdict;
use crate::driver;
use crate::facts;
use crate::failed::Failed;
use crate::hook;
use crate::session::Session;

/// The failed allocation, if it became known only when the program queried the text of the error.
const TOLD: &str = "memory of unknown size (kernel code or stacks, a stream, an event)";
/// Maximum number of lines in each table.
const TENSOR_LINES: usize = 10;
const DRIVER_LINES: usize = 5;
/// Longest label of a line, in characters.
const LABEL: usize = 60;

/// The whole text, with line ends.
pub(super) fn render(
    session: &'static Session,
    recorded: &Recorded,
    figures: &Figures,
    (lines, verdict, holders): (Option<&Lines>, Option<&Verdict>, Option<&str>),
) -> String {
    let mut out = String::new();
    let device = recorded.failed.device;
    let facts = driver::device_facts(gpumem_cuda_abi::CuDevice(i32::from(device.0)));
    let card = String::from_utf8_lossy(facts.name.bytes()).into_owned();
    let whose =
        lines.map(|lines| lines.label(&lines.owner(recorded.stacks, recorded.failed.level)));
    let function = hook::by_id(recorded.failed.api.0).map_or_else(String::new, |hook| {
        String::from_utf8_lossy(hook.label()).into_owned()
    });
    let place = match recorded.failed.level {
        Level::HOST => "of pinned host memory".to_owned(),
        _ if card.is_empty() => format!("on GPU {}", device.0),
        _ => format!("on GPU {} ({card})", device.0),
    };
    let what = match (figures.level, figures.asked) {
        (Level::PHYSICAL, _) if recorded.failed.of.contains(EventFlags::MODULE) => {
            "kernel code".to_owned()
        }
        _ if recorded.failed.is_told => TOLD.to_owned(),
        (Level::PHYSICAL, 0) => "a context".to_owned(),
        (Level::PHYSICAL, takes) => {
            format!(
                "a context, which takes {} ({} bytes),",
                bytes(takes),
                count(takes)
            )
        }
        (_, asked) => format!("{} ({} bytes)", bytes(asked), count(asked)),
    };
    let through = match function.as_str() {
        "pytorch" => "PyTorch's cache",
        function => function,
    };
    let asked = match recorded.failed.is_told {
        true => String::new(),
        false => format!(" requested through {through}"),
    };
    let _ = writeln!(out, "out of memory {place}: {what}{asked}");
    if let Some(whose) = whose {
        let note = match recorded.failed.of.contains(EventFlags::WORKSPACE) {
            true => " (cuBLAS workspace)",
            false => "",
        };
        let _ = writeln!(out, "  by       {whose}{note}");
    }
    cause(&mut out, verdict);
    let _ = match figures.level {
        Level::HOST => writeln!(
            out,
            "  pinned   {} by this process",
            bytes(figures.pinned.bytes)
        ),
        _ => writeln!(out, "  card     {}", card_text(figures, verdict)),
    };
    if let Some(limit) = &figures.limit {
        let _ = writeln!(
            out,
            "  limit    {}: the card itself has {}",
            limit.name,
            bytes(limit.total)
        );
    }
    out.push_str(holders.unwrap_or_default());
    out.push_str(&who_holds(figures, lines));
    out.push_str(&given_back(figures));
    in_full(&mut out, session);
    out
}

fn cause(out: &mut String, verdict: Option<&Verdict>) {
    let Some(verdict) = verdict else {
        let _ = writeln!(
            out,
            "  cause    not known in time: the command below has it"
        );
        return;
    };
    let _ = writeln!(out, "  cause    {}", verdict.what);
    if let Some(advice) = &verdict.advice {
        let _ = writeln!(out, "  to try   {advice}");
    }
}

/// The command that shows all of it.
fn in_full(out: &mut String, session: &'static Session) {
    let path = session.writer.path().unwrap_or(Path::new("report.bin"));
    let here = std::env::current_dir().ok();
    let shown = here
        .and_then(|here| path.strip_prefix(here).ok())
        .unwrap_or(path);
    let _ = writeln!(
        out,
        "  In full: gpumem-analyze oom {}",
        facts::quoted(shown.as_os_str())
    );
}

/// A report without tables, of a failure that was not judged when it happened.
pub(super) fn brief(session: &'static Session, event: &Event, verdict: Option<&Verdict>) -> String {
    let mut out = String::new();
    let (what, device) = (bytes(event.bytes), event.device.0);
    let _ = writeln!(out, "out of memory on GPU {device}: {what} requested");
    if let Some(verdict) = verdict {
        let _ = writeln!(out, "  by       {}", verdict.line);
    }
    cause(&mut out, verdict);
    in_full(&mut out, session);
    out
}

/// The line of a convolution's attempt.
pub(super) fn attempt(failed: &Failed, verdict: &Verdict) -> String {
    format!(
        "{} for the workspace of a convolution did not fit on GPU {}, requested by {}: PyTorch tries another algorithm",
        bytes(failed.bytes),
        failed.device.0,
        verdict.line
    )
}

/// Which of the reports above is that of the last failure, after which nothing was allocated.
pub(super) fn of_report(event: &Event, (at, of): (usize, usize)) -> String {
    let what = match event.bytes {
        0 => "memory of unknown size".to_owned(),
        known => bytes(known),
    };
    format!("nothing was allocated after the failure of {what}: see report {at} of {of} above")
}

/// The report of the failure that ended the program, below others.
pub(super) fn with_ending(text: &str) -> String {
    let (first, rest) = text.split_once('\n').unwrap_or((text, ""));
    format!(
        "{first}\n  ended    the program went on after the failures above, and not after this one\n{rest}"
    )
}

/// Cuts a label that is too long at its beginning, which is a folder, so that line and function stay.
fn cut(label: &str) -> String {
    let over = label.chars().count().saturating_sub(LABEL);
    match over {
        0 => label.to_owned(),
        _ => ['…']
            .into_iter()
            .chain(label.chars().skip(over + 1))
            .collect(),
    }
}

/// The card's figures, as far as known: `15.2 GiB of 16.0 GiB in use, …`.
fn card_text(figures: &Figures, verdict: Option<&Verdict>) -> String {
    let Some(card) = figures.card else {
        return match figures.free() {
            Some(free) => format!("{} free", bytes(free)),
            None => "the card's use is not known".into(),
        };
    };
    let mut text = format!("{} of {} in use", bytes(card.used), bytes(card.total));
    // That cause has a figure of this process at the failure, and NVML's is that of now.
    let has_mine = verdict.is_some_and(|of| of.reason.0 == Kind::OtherProcesses);
    if let Some(mine) = card.mine.filter(|_| !has_mine) {
        let _ = write!(text, ", {} by this process", bytes(mine));
    }
    if let Some(others) = card.others.filter(|others| *others != 0) {
        let _ = write!(text, ", {} by others", bytes(others));
    }
    if let Some(free) = figures.free() {
        let _ = write!(text, ", {} free", bytes(free));
    }
    text
}

/// A line of a table: bytes, share of the whole, blocks, and owner.
fn row(out: &mut String, (held, whole, blocks): (u64, u64, Option<u64>), label: &str) {
    let blocks = blocks.map_or_else(String::new, count);
    let _ = writeln!(
        out,
        "  {:>10}  {:>5}  {blocks:>9}  {}",
        bytes(held),
        percent(held, whole),
        cut(label)
    );
}

/// The bytes of each line, largest first: bytes, blocks, and owner.
fn by_line(held: &Held, level: Level, lines: Option<&Lines>) -> Vec<(u64, u64, String)> {
    let mut labels: BTreeMap<String, (u64, u64)> = BTreeMap::new();
    for (stack, (bytes, blocks)) in &held.by_stack {
        let label = match lines {
            Some(lines) => lines.label(&lines.owner((*stack, StackId::NONE), level).whole()),
            None => format!("(stack {}: the capture cannot be read)", stack.0),
        };
        let sum = labels.entry(label).or_default();
        *sum = (sum.0 + bytes, sum.1 + blocks);
    }
    let rows = labels.into_iter();
    let mut rows: Vec<_> = rows
        .map(|(label, (bytes, blocks))| (bytes, blocks, label))
        .collect();
    rows.sort_by(|a, b| b.0.cmp(&a.0).then_with(|| a.2.cmp(&b.2)));
    rows
}

fn table_of(
    out: &mut String,
    (title, held, level): (&str, &Held, Level),
    (most, whole): (usize, u64),
    lines: Option<&Lines>,
) {
    if held.bytes == 0 {
        return;
    }
    let _ = writeln!(out, "  {:>10}  share  {:>9}  {title}", "bytes", "blocks");
    let rows = by_line(held, level, lines);
    for (held, blocks, label) in rows.iter().take(most) {
        row(out, (*held, whole, Some(*blocks)), label);
    }
    let rest = rows.get(most..).unwrap_or_default();
    if !rest.is_empty() {
        let held = rest.iter().map(|row| row.0).sum();
        let blocks = rest.iter().map(|row| row.1).sum();
        let label = format!("{} other lines", count(rest.len() as u64));
        row(out, (held, whole, Some(blocks)), &label);
    }
}

fn who_holds(figures: &Figures, lines: Option<&Lines>) -> String {
    let mut out = String::new();
    if figures.level == Level::HOST {
        let whole = figures.pinned.bytes;
        let what = ("pinned host memory, by line", &figures.pinned, Level::HOST);
        table_of(&mut out, what, (TENSOR_LINES, whole), lines);
        return out;
    }
    let whole = figures
        .mine()
        .unwrap_or(figures.physical)
        .max(figures.tensors.bytes);
    if let Some(sampling) = figures.sampling {
        let mean = bytes(sampling.mean.get());
        let _ = writeln!(
            out,
            "  sampled  one stack per {mean} allocated: bytes of tensors by line are estimates"
        );
    }
    let what = ("live tensors, by line", &figures.tensors, Level::TENSOR);
    table_of(&mut out, what, (TENSOR_LINES, whole), lines);
    let title = match figures.tensors.bytes {
        0 => "live device memory, by line",
        _ => "device memory outside of tensors, by line",
    };
    let what = (title, &figures.others_of_driver, Level::DRIVER);
    table_of(&mut out, what, (DRIVER_LINES, whole), lines);
    let unexplained = figures
        .mine()
        .map_or(0, |mine| mine.saturating_sub(figures.physical));
    let parts = [
        (figures.cached(), "reserved but unallocated"),
        (figures.contexts, "CUDA contexts"),
        (figures.streams, "CUDA streams"),
        (figures.modules, "kernel modules"),
        (
            figures.pools.saturating_sub(figures.pools_used),
            "memory pools, reserved but unused",
        ),
        (figures.graphs, "CUDA graphs, reserved but unused"),
        (
            unexplained,
            "unexplained: in NVML's figure, not in a recorded call",
        ),
    ];
    if parts.iter().any(|(bytes, _)| *bytes != 0) {
        let _ = writeln!(out, "  {:>10}  share  {:>9}  other memory", "bytes", "");
    }
    for (held, label) in parts.iter().filter(|(bytes, _)| *bytes != 0) {
        row(&mut out, (*held, whole, None), label);
    }
    out
}

/// Suggestions to avoid the failure.
fn given_back(figures: &Figures) -> String {
    let mut ways = Vec::new();
    let pools = figures.pools.saturating_sub(figures.pools_used);
    if pools != 0 {
        ways.push(format!(
            "free {} of memory pools with cuMemPoolTrimTo",
            bytes(pools)
        ));
    }
    if figures.graphs != 0 {
        ways.push(format!(
            "free {} of CUDA graphs with cuDeviceGraphMemTrim, while no graph runs",
            bytes(figures.graphs)
        ));
    }
    let mut out = String::new();
    for way in ways {
        let _ = writeln!(out, "  to try   {way}");
    }
    out
}
