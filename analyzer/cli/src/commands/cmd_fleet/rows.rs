//! `gpumem-analyze fleet rows`.

use std::io::Write;
use std::path::PathBuf;

use gpumem_analyzer::fleet::{self, Taken};
use gpumem_analyzer::session;
use gpumem_dataset::{CaptureRows, Table, TableInfo};
use serde::Serialize;

use super::take::TakeArgs;
use crate::args::Format;
use crate::commands::exit::{Exit, explained};
use crate::commands::output::Output;

/// `fleet rows`.
#[derive(clap::Args, Debug)]
pub struct Args {
    /// What is stored of it.
    #[command(flatten)]
    pub take: TakeArgs,
    /// Also one row for each event; the capture is then read twice
    #[arg(long)]
    pub events: bool,
    /// Text (the number of rows) or JSON (the rows)
    #[arg(long, value_enum, default_value_t)]
    pub format: Format,
    /// The capture
    pub file: PathBuf,
}

/// Why events could not be written.
enum Failed {
    Read(session::Error),
    Write(anyhow::Error),
}

impl From<session::Error> for Failed {
    fn from(error: session::Error) -> Self {
        Self::Read(error)
    }
}

/// Runs it.
pub fn run(args: &Args, output: &mut Output<'_>) -> anyhow::Result<Exit> {
    let file = &args.file;
    let options = args.take.options()?;
    let taken = fleet::take(file, &file.display().to_string(), &options);
    let taken = taken.map_err(|error| explained(file, &error))?;
    let rank = &taken.rows.rank;
    if let Some(line) = &rank.missing {
        eprintln!("gpumem-analyze: partial: {line}");
    }
    let exit = match rank.exact {
        true => Exit::Complete,
        false => Exit::Partial,
    };
    match args.format {
        Format::Json => json(args, taken, output.out)?,
        Format::Text => output.text(&text(&taken.rows))?,
    }
    Ok(exit)
}

/// How many rows there are.
fn text(rows: &CaptureRows) -> String {
    fn of<T: Table>(rows: &[T]) -> (TableInfo, usize) {
        (T::INFO, rows.len())
    }
    let counts = [
        of(std::slice::from_ref(&rows.rank)),
        of(&rows.labels),
        of(&rows.held),
        of(&rows.lines),
        of(&rows.frames),
        of(&rows.ledger),
        of(&rows.series),
        of(&rows.steps),
        of(&rows.failures),
    ];
    let mut text = format!("Run {}: rows by table\n", rows.run);
    for (table, count) in counts {
        text.push_str(&format!("  {:<9}{count:>7}\n", table.name));
    }
    text
}

/// An object with a list for each table, a row on each line. Events are written as they come.
fn json(args: &Args, taken: Taken, out: &mut dyn Write) -> anyhow::Result<()> {
    write!(out, "{{\n\"run\": ")?;
    serde_json::to_writer(&mut *out, &taken.rows.run)?;
    let mut more = Vec::new();
    if args.events {
        write!(out, ",\n\"events\": [")?;
        let mut before = "\n";
        let written = taken.events(&args.file, &mut |event| {
            row(out, before, &event).map_err(Failed::Write)?;
            before = ",\n";
            Ok(())
        });
        more = written.map_err(|error| match error {
            Failed::Read(error) => explained(&args.file, &error),
            Failed::Write(error) => error,
        })?;
        write!(out, "\n]")?;
    }
    let mut rows = taken.rows;
    rows.lines.extend(more);
    table(out, std::slice::from_ref(&rows.rank))?;
    table(out, &rows.labels)?;
    table(out, &rows.held)?;
    table(out, &rows.lines)?;
    table(out, &rows.frames)?;
    table(out, &rows.ledger)?;
    table(out, &rows.series)?;
    table(out, &rows.steps)?;
    table(out, &rows.failures)?;
    out.write_all(b"\n}\n")?;
    Ok(())
}

fn table<T: Table + Serialize>(out: &mut dyn Write, rows: &[T]) -> anyhow::Result<()> {
    write!(out, ",\n\"{}\": [", T::INFO.name)?;
    let mut before = "\n";
    for of in rows {
        row(out, before, of)?;
        before = ",\n";
    }
    write!(out, "\n]")?;
    Ok(())
}

fn row(out: &mut dyn Write, before: &str, row: &impl Serialize) -> anyhow::Result<()> {
    out.write_all(before.as_bytes())?;
    serde_json::to_writer(&mut *out, row)?;
    Ok(())
}
