//! `gpumem-analyze check`.

use std::path::PathBuf;

use gpumem_analyzer::account::{Comparison, many};
use gpumem_analyzer::render::{Style, account_lines, bytes, count, reached_line};
use gpumem_analyzer::replay::At;
use gpumem_analyzer::session::Session;
use serde::Serialize;

use super::exit::Exit;
use super::output::{Output, file_name};
use super::read::read;
use crate::args::Format;

#[derive(Serialize)]
struct Check<'a> {
    schema: u32,
    whole: bool,
    exact: bool,
    format_version: u32,
    bytes: u64,
    events: u64,
    definitions: u64,
    pages: u64,
    names: u64,
    lost_events: u64,
    lost_definitions: u64,
    in_flight: u64,
    ending: &'static str,
    counters_agree: Option<bool>,
    loss_ranges: Vec<Loss>,
    damage: Vec<Damage<'a>>,
    missing: &'a [String],
    notes: &'a [String],
}

#[derive(Serialize)]
struct Loss {
    first_ns: u64,
    last_ns: u64,
    events: u64,
}

#[derive(Serialize)]
struct Damage<'a> {
    offset: u64,
    what: &'a str,
    first_missing: Option<u64>,
    next_good: Option<u64>,
}

/// `check`.
#[derive(clap::Args, Debug)]
pub struct Args {
    /// Text or JSON
    #[arg(long, value_enum, default_value_t)]
    pub format: Format,
    /// The capture
    pub file: PathBuf,
}

/// Runs it.
pub fn run(args: &Args, output: &mut Output<'_>) -> anyhow::Result<Exit> {
    let session = read(&args.file, At::End)?;
    let length = std::fs::metadata(&args.file)
        .map(|found| found.len())
        .unwrap_or(0);
    let whole = session.integrity.is_whole()
        && session.account.counters != Comparison::Disagree
        && !session.account.ends_early;
    match args.format {
        Format::Json => output.json(session.account.sampling, &check(&session, whole, length))?,
        Format::Text => {
            let text = text(&file_name(&args.file), &session, whole, length, output);
            output.text(&text)?;
        }
    }
    Ok(if whole { Exit::Complete } else { Exit::Partial })
}

fn check(session: &Session, whole: bool, length: u64) -> Check<'_> {
    let (integrity, account) = (&session.integrity, &session.account);
    Check {
        schema: 1,
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
