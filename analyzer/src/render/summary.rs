//! The summary as text.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use gpumem_capture::{Coordinates, Nanos};

use textwrap::core::display_width;

use super::calls::call_times;
use super::{Align, Style, Table, Terminal, bytes, count, signed, time};
use crate::account::{Account, Comparison, Ending, many, place};
use crate::names::short_command;
use crate::views::{CategorySummary, LevelSummary, ProcessSummary, Summary, when};

/// Notes at the head of a result: what is missing, and whether stacks are sampled; empty if everything is exact.
pub fn caveats(account: &Account, terminal: Terminal) -> String {
    let mut out = String::new();
    if !account.is_exact() {
        out = terminal.paint(
            Style::Bad,
            "PARTIAL: data is missing, so the figures below are incomplete.",
        );
        out.push('\n');
        for line in &account.missing {
            out.push_str(&format!("  - {line}\n"));
        }
        out.push('\n');
    }
    if let Some(sampled) = account.sampled() {
        let sampled = sampled.replace("; ", "\n  ");
        out.push_str(&format!("{}\n\n", terminal.paint(Style::Strong, &sampled)));
    }
    out
}

/// The line about the accuracy check, and its notes.
pub fn account_lines(account: &Account, terminal: Terminal) -> String {
    let hooks = many(account.hooks as u64, "hook armed", "hooks armed");
    let lost = many(account.events_lost, "event lost", "events lost");
    let (style, claim) = match (account.is_exact(), account.ending) {
        (true, Ending::Running) => (Style::Good, "exact so far"),
        (true, _) => (Style::Good, "exact"),
        (false, _) => (Style::Bad, "NOT exact"),
    };
    let agree = match account.counters {
        Comparison::Agree => "counters agree with the replay",
        Comparison::Disagree => "counters disagree with the replay",
        Comparison::Incomplete => "not all counters compared with the replay",
    };
    let claim = terminal.paint(style, claim);
    let nvml = nvml(account);
    if let Some(replayed) = &account.replayed {
        let agree = agree.replace("the replay", "the records");
        return format!(
            "account      {claim} relative to a replay by PyTorch {}'s allocator: {lost}, {agree}\n             \
             outside its pool on GPU {}, figures are as recorded; NVML readings are shifted by the pool's difference\n{}",
            replayed.pytorch,
            replayed.device,
            notes(account)
        );
    }
    let mut out = match &account.imported {
        None => format!("account      {claim}: {hooks}, {lost}, {agree}; {nvml}\n"),
        Some(from) => format!(
            "account      {claim} relative to the {} it was imported from: no hooks, not compared with NVML\n",
            from
        ),
    };
    if account.ending == Ending::Killed {
        out.push_str(if account.is_exact() {
            "             the process was killed, or ended without its exit handlers; no recorded event is lost\n"
        } else {
            "             the process was killed, or ended without its exit handlers\n"
        });
    }
    out.push_str(&notes(account));
    out
}

/// How the program reached the driver; empty if that is not known.
pub fn reached_line(account: &Account) -> String {
    reached(account).map_or(String::new(), |reached| format!("             {reached}\n"))
}

fn notes(account: &Account) -> String {
    let notes = account.notes.iter();
    notes
        .map(|note| format!("             note: {note}\n"))
        .collect()
}

/// The difference between NVML and the account.
fn nvml(account: &Account) -> String {
    if account.unexplained.is_empty() {
        return "not compared with NVML".into();
    }
    let beyond: Vec<String> = account
        .unexplained
        .iter()
        .filter(|(_, unexplained)| *unexplained != 0)
        .map(|(device, unexplained)| {
            let word = if *unexplained > 0 { "more" } else { "less" };
            let amount = bytes(unexplained.unsigned_abs());
            format!("{amount} {word} on {}", place(*device))
        })
        .collect();
    if beyond.is_empty() {
        return "agrees with NVML to the byte".into();
    }
    format!("NVML has {}, unexplained", beyond.join(", "))
}

/// How many libraries are shown with their way to the driver.
const REACHED: usize = 6;

/// How each library reached the driver, and how many events and calls were recorded.
fn reached(account: &Account) -> Option<String> {
    let mut libraries: BTreeMap<&str, (u64, Vec<String>)> = BTreeMap::new();
    for reached in &account.reached {
        // Programs that are linked with CUDA's libraries request no functions.
        let name = match reached.library.as_str() {
            "" => "linked programs",
            library => library,
        };
        let (hooks, ways) = libraries.entry(name).or_default();
        *hooks += reached.hooks;
        ways.push(format!("{} {}", reached.way, count(reached.hooks)));
    }
    let mut libraries: Vec<_> = libraries.into_iter().collect();
    libraries.sort_by_key(|(name, (hooks, _))| (Reverse(*hooks), *name));
    let shown: Vec<String> = libraries
        .iter()
        .take(REACHED)
        .map(|(name, (_, ways))| format!("{name} ({})", ways.join(", ")))
        .collect();
    let more = match libraries.len().saturating_sub(REACHED) {
        0 => String::new(),
        more => format!(", {more} more"),
    };
    let events = many(account.calls, "driver event", "driver events");
    let calls = match account.seen {
        0 => String::new(),
        seen => format!(" of {}", many(seen, "call", "calls")),
    };
    let from = shown.join(", ");
    (!shown.is_empty()).then(|| format!("reached from {from}{more}; {events}{calls} seen"))
}

/// What ran: one line.
pub fn what_ran(file: &str, summary: &Summary, terminal: Terminal) -> String {
    let process = &summary.process;
    let command = process.command.as_deref().map(short_command);
    let command = command.or(summary.imported.as_deref());
    let mut parts = vec![command.unwrap_or("unknown command").to_owned()];
    if summary.imported.is_none() && summary.replayed.is_none() {
        parts.push(format!("pid {}", process.pid));
    }
    if let Some(rank) = process.rank {
        let of = process
            .world_size
            .map(|size| format!(" of {size}"))
            .unwrap_or_default();
        parts.push(format!("rank {rank}{of}"));
    }
    let mut names: Vec<&str> = Vec::new();
    for device in &summary.devices {
        let name = device.name.as_deref().unwrap_or("unknown GPU");
        if !names.contains(&name) {
            names.push(name);
        }
    }
    if !names.is_empty() {
        let times = if summary.devices.len() > 1 {
            format!("{} × ", summary.devices.len())
        } else {
            String::new()
        };
        parts.push(format!("{times}{}", names.join(", ")));
    }
    parts.push(format!("{:.1} s", process.duration_ns as f64 / 1e9));
    let events = many(summary.events, "event", "events");
    parts.push(match summary.events {
        0 => events,
        _ => format!("{events}, numbered to {}", count(summary.last_event)),
    });
    if summary.steps > 0 {
        parts.push(many(summary.steps, "step", "steps"));
    }
    let parts: Vec<String> = parts.to_vec();
    let mut out = format!(
        "{}   {}\n",
        terminal.paint(Style::Strong, file),
        parts.join(" · ")
    );
    out.push_str(&position(process));
    if let Some(replayed) = &summary.replayed {
        let (capture, under) = (&replayed.capture, replayed.under());
        let device = match summary.devices.len() {
            0 | 1 => String::new(),
            _ => format!("GPU {} in ", replayed.device),
        };
        out.push_str(&format!(
            "replay       of {device}{capture} under {under}\n"
        ));
    }
    for device in &summary.devices {
        if let Some(limit) = device.limit_bytes {
            let card = match device.total_bytes {
                Some(total) => format!(" of the card's {}", bytes(total)),
                None => String::new(),
            };
            out.push_str(&format!(
                "limit        GPU {} was limited to {}{card} (GPUMEM_LIMIT)\n",
                device.ordinal,
                bytes(limit)
            ));
        }
    }
    out
}

/// Columns of the lines about the rank.
const COLUMNS: usize = 80;
/// Columns of a line's label.
const LABEL: usize = 13;

/// The coordinates of the rank and its job: no lines if nothing is known.
fn position(process: &ProcessSummary) -> String {
    let local = process.local_rank.map(|rank| format!("local rank {rank}"));
    let node = process.node_rank.map(|node| format!("node {node}"));
    let coordinates = process.coordinates.iter().flat_map(Coordinates::iter);
    let coordinates = coordinates.map(|(name, number)| format!("{name} {number}"));
    let position = local.into_iter().chain(node).chain(coordinates);
    let again = |count: Option<u64>, one: &str| {
        let count = count.filter(|count| *count > 0)?;
        Some(format!("{one} {count}"))
    };
    let names = process.job.iter().flat_map(|job| job.split(' '));
    let restart = again(process.restarts, "restart");
    let requeue = again(process.requeues, "requeue");
    let job = names.map(str::to_owned).chain(restart).chain(requeue);
    packed("position", position) + &packed("job", job)
}

/// Parts after a label, as many on a line as there is room for.
fn packed(label: &str, parts: impl Iterator<Item = String>) -> String {
    let mut lines: Vec<String> = Vec::new();
    for part in parts {
        let room = COLUMNS - LABEL;
        match lines.last_mut() {
            Some(line) if display_width(line) + 3 + display_width(&part) <= room => {
                line.push_str(" · ");
                line.push_str(&part);
            }
            _ => lines.push(part),
        }
    }
    let labels = std::iter::once(label).chain(std::iter::repeat(""));
    let lines = labels.zip(lines);
    lines
        .map(|(label, line)| format!("{label:<LABEL$}{line}\n"))
        .collect()
}

/// The whole summary.
pub fn summary_text(
    file: &str,
    summary: &Summary,
    account: &Account,
    terminal: Terminal,
) -> String {
    let mut out = caveats(account, terminal);
    out.push_str(&what_ran(file, summary, terminal));
    out.push_str(&account_lines(account, terminal));
    out.push_str(&reached_line(account));
    for device in &summary.devices {
        let name = device.name.as_deref().unwrap_or("unknown GPU");
        let uuid = device
            .uuid
            .as_deref()
            .map(|uuid| format!(" · {uuid}"))
            .unwrap_or_default();
        let of = device
            .total_bytes
            .map(|total| format!(" · {}", bytes(total)))
            .unwrap_or_default();
        out.push('\n');
        let title = format!("GPU {}", device.ordinal);
        out.push_str(&format!(
            "{}   {name}{of}{uuid}\n",
            terminal.paint(Style::Strong, &title)
        ));
        let right = Align::Right;
        let mut table = Table::new(&[Align::Left, right, right, right, right]);
        table
            .row(["", "live", "peak", "allocations", "frees"])
            .style_row(Style::Faint);
        level(&mut table, "tensors", &device.tensor);
        categories(&mut table, &device.categories);
        let reserved = device.reserved;
        table.row([
            "  reserved for tensors",
            &bytes(reserved.live_bytes),
            &bytes(reserved.peak_bytes),
            "",
            "",
        ]);
        level(&mut table, "driver", &device.driver);
        level(&mut table, "pinned host memory", &device.host);
        if let (Some(live), Some(peak)) = (device.physical.live_bytes, device.physical.peak_bytes) {
            table.row(["physical", &bytes(live), &bytes(peak), "", ""]);
        }
        let unexplained = device
            .unexplained_bytes
            .map_or("not measured".into(), signed);
        table.row(["unexplained", &unexplained, "", "", ""]);
        out.push_str(&table.render(terminal, 2));
        let peak = device.peak.as_ref().map(|peak| (peak, when(&peak.when)));
        if let Some((peak, when)) = peak.filter(|(_, when)| !when.is_empty()) {
            let moment = moment(peak.seq, Nanos(peak.time_ns));
            out.push_str(&format!("  peak at {moment}{when}\n"));
        }
    }
    if let Some(host) = &summary.host_of_no_device {
        let mut table = Table::new(&[
            Align::Left,
            Align::Right,
            Align::Right,
            Align::Right,
            Align::Right,
        ]);
        level(&mut table, "pinned host memory without a device", host);
        out.push('\n');
        out.push_str(&table.render(terminal, 0));
    }
    if summary.devices.is_empty() {
        out.push_str("\nNo GPU memory was allocated.\n");
    }
    out.push_str(&call_times(&summary.calls, terminal));
    if summary.out_of_memory_events > 0 {
        let what = many(
            summary.out_of_memory_events,
            "allocation failed",
            "allocations failed",
        );
        out.push_str(&format!(
            "\n{}\n",
            terminal.paint(Style::Bad, &format!("{what}: out of memory"))
        ));
    }
    out
}

/// The categories of tensors, if any are known.
fn categories(table: &mut Table, categories: &[CategorySummary]) {
    if !categories.iter().any(|of| of.category.is_specific()) {
        return;
    }
    for of in categories {
        let name = format!("  {}", of.category.name());
        table.row([&name, &bytes(of.live_bytes), &bytes(of.peak_bytes), "", ""]);
        table.style_row(Style::Faint);
    }
}

fn level(table: &mut Table, name: &str, level: &LevelSummary) {
    let (allocations, frees) = (count(level.allocations), count(level.frees));
    table.row([
        name,
        &bytes(level.live_bytes),
        &bytes(level.peak_bytes),
        &allocations,
        &frees,
    ]);
}

/// An event such as `00:03.214, event 21,334`.
pub fn moment(seq: u64, when: Nanos) -> String {
    format!("{}, event {seq}", time(when))
}
