//! `gpumem-analyze check`.

use std::path::PathBuf;

use anyhow::{Context as _, bail};
use gpumem_analyzer::account::{Comparison, many};
use gpumem_analyzer::envelope::{Body, Form, Heads, View};
use gpumem_analyzer::render::{Style, account_lines, bytes, count, reached_line};
use gpumem_analyzer::replay::At;
use gpumem_analyzer::session::Session;
use gpumem_capture::{Merged, merge_held};
use schemars::JsonSchema;
use serde::Serialize;

use super::exit::Exit;
use super::output::{Output, file_name};
use super::read::Opened;
use super::symbolize;
use super::view::Of;
use crate::args::Format;

/// Checks of a capture, and their results.
#[derive(Serialize, JsonSchema)]
pub struct Check<'a> {
    /// Whether the capture is whole: the file is not damaged, and the counters agree.
    whole: bool,
    /// Whether all figures are proven.
    exact: bool,
    /// Version of the file's format.
    format_version: u32,
    /// Size of the file in bytes.
    bytes: u64,
    /// Number of events in the file.
    events: u64,
    /// Number of definitions in the file: stacks, names, threads and others.
    definitions: u64,
    /// Number of pages in the file.
    pages: u64,
    /// Number of native functions whose names are in the file.
    names: u64,
    /// Number of events that the recorder lost.
    lost_events: u64,
    /// Number of definitions that the recorder lost.
    lost_definitions: u64,
    /// Number of records that were incomplete when the program ended.
    in_flight: u64,
    /// How the program ended: `clean`, `running` or `killed`.
    ending: &'static str,
    /// Whether the recorder's counters agree with the events; `None` if they could not be compared.
    counters_agree: Option<bool>,
    /// Intervals in which events were lost.
    loss_ranges: Vec<Loss>,
    /// Damaged parts of the file.
    damage: Vec<Damage<'a>>,
    /// Missing parts, one sentence each; empty if the figures are exact.
    missing: &'a [String],
    /// Other notes on the capture, one sentence each.
    notes: &'a [String],
}

/// A time in which events were lost.
#[derive(Serialize, JsonSchema)]
struct Loss {
    /// Start of the interval: nanoseconds since the capture was opened.
    first_ns: u64,
    /// End of the interval: nanoseconds since the capture was opened.
    last_ns: u64,
    /// Number of events that were lost in the interval.
    events: u64,
}

/// A damaged part of the file.
#[derive(Serialize, JsonSchema)]
struct Damage<'a> {
    /// Position of the damage in the file, in bytes.
    offset: u64,
    /// Description of the damage.
    what: &'a str,
    /// Number of the first missing record; `None`: it is not known.
    first_missing: Option<u64>,
    /// Number of the next readable record; `None`: there is no other.
    next_good: Option<u64>,
}

impl View for Check<'_> {
    const FORM: Form = Form {
        name: "check",
        body: Body::Data,
        heads: Heads::One,
    };
}

/// `check`.
#[derive(clap::Args, Debug)]
pub struct Args {
    /// The capture's ring, if it has no file name: /dev/fd/N of a descriptor that was held open. The events that a killed
    /// process left in it are written to the capture, as every command does with a ring that has a name
    #[arg(long, value_name = "FILE")]
    pub ring: Option<PathBuf>,
    /// The copy with names.
    #[command(flatten)]
    pub copy: symbolize::CopyArgs,
    /// Text or JSON
    #[arg(long, value_enum, default_value_t)]
    pub format: Format,
    /// The capture
    pub file: PathBuf,
}

/// Opens the capture, and writes the events that its process left in memory to it. Returns text about that; `None`: it
/// left no events.
fn recover(args: &Args) -> anyhow::Result<(Opened, Option<&'static str>)> {
    let held = match &args.ring {
        None => None,
        Some(ring) => {
            // What is no capture is reported first.
            Opened::open(&args.file)?;
            let file = gpumem_files::read::open(ring);
            let file = file.with_context(|| ring.display().to_string())?;
            Some(merge_held(&args.file, file)?)
        }
    };
    let capture = Opened::open(&args.file)?;
    let merged = match held {
        Some(merged) => merged,
        None => capture.merged()?,
    };
    let is_running = capture.is_running();
    let about = match merged {
        Merged::Done => Some("wrote the events that its process left in memory to the capture"),
        Merged::InUse if is_running && args.ring.is_some() => {
            bail!("{}: its process is still running", args.file.display())
        }
        Merged::InUse if is_running => Some("its process is still running"),
        Merged::InUse => Some("another program is recovering it"),
        Merged::OfAnotherUser => Some("it belongs to another user: check it as that user"),
        _ => None,
    };
    Ok((capture, about))
}

/// Runs the command.
pub fn run(args: &Args, output: &mut Output<'_>) -> anyhow::Result<Exit> {
    let (mut capture, recovered) = recover(args)?;
    if let Some(recovered) = recovered {
        let file = args.file.display();
        output.notes.say(format_args!("{file}: {recovered}"));
    }
    let session = capture.read(At::End)?;
    let length = std::fs::metadata(&args.file)
        .map(|found| found.len())
        .unwrap_or(0);
    let whole = session.integrity.is_whole()
        && session.account.counters != Comparison::Disagree
        && !session.account.ends_early;
    match args.format {
        Format::Json => {
            let of = Of {
                file: &args.file,
                session: &session,
            };
            output.json(&of.captures(), &check(&session, whole, length))?;
        }
        Format::Text => {
            let text = text(&file_name(&args.file), &session, whole, length, output);
            output.text(&text)?;
        }
    }
    if let Some(target) = &args.copy.symbolize {
        let text = symbolize::run(&mut capture, &session, &args.copy, target)?;
        match args.format {
            Format::Json => text.lines().for_each(|line| output.notes.say(line.trim())),
            Format::Text => output.text(&text)?,
        }
    }
    Ok(if whole { Exit::Complete } else { Exit::Partial })
}

fn check(session: &Session, whole: bool, length: u64) -> Check<'_> {
    let (integrity, account) = (&session.integrity, &session.account);
    Check {
        whole,
        exact: account.is_exact(),
        format_version: session.header.version,
        bytes: length,
        events: integrity.events,
        definitions: integrity.definitions,
        pages: integrity.pages,
        names: integrity.symbols,
        lost_events: integrity.events_lost,
        lost_definitions: integrity.definitions_lost,
        in_flight: integrity.in_flight,
        ending: account.ending.word(),
        counters_agree: match account.counters {
            Comparison::Agree => Some(true),
            Comparison::Disagree => Some(false),
            Comparison::Incomplete => None,
        },
        loss_ranges: integrity
            .loss_ranges
            .iter()
            .map(|range| Loss {
                first_ns: range.first.0,
                last_ns: range.last.0,
                events: range.events,
            })
            .collect(),
        damage: integrity
            .damage
            .iter()
            .map(|damage| Damage {
                offset: damage.offset,
                what: &damage.what,
                first_missing: damage.first_missing.map(|seq| seq.0),
                next_good: damage.next_good.map(|seq| seq.0),
            })
            .collect(),
        missing: &account.missing,
        notes: &account.notes,
    }
}

fn text(file: &str, session: &Session, whole: bool, length: u64, output: &Output<'_>) -> String {
    let (integrity, terminal) = (&session.integrity, output.terminal);
    let verdict = if whole {
        terminal.paint(Style::Good, "whole")
    } else if integrity.is_whole() && session.account.ends_early {
        terminal.paint(Style::Bad, "ENDS EARLY")
    } else {
        terminal.paint(Style::Bad, "DAMAGED")
    };
    let mut out = format!(
        "{file}: {verdict}: {}, {} events, {} definitions, {} pages, format version {}\n",
        bytes(length),
        count(integrity.events),
        count(integrity.definitions),
        count(integrity.pages),
        session.header.version,
    );
    if integrity.symbols > 0 {
        out.push_str(&format!(
            "function names are embedded for {}\n",
            many(integrity.symbols, "place", "places")
        ));
    }
    for line in &session.account.missing {
        out.push_str(&format!("  - {line}\n"));
    }
    out.push_str(&account_lines(&session.account, terminal));
    out.push_str(&reached_line(&session.account));
    out
}
