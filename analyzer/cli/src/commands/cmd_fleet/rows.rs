//! `gpumem-analyze fleet rows`.

use std::borrow::Cow;
use std::io::Write;
use std::path::PathBuf;

use gpumem_analyzer::envelope::{Body, Captures, Form, Heads, View, opening};
use gpumem_analyzer::fleet::{self, Taken};
use gpumem_analyzer::session;
use gpumem_dataset::{CaptureRows, Kind, TABLES, Table, TableInfo};
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::Serialize;
use serde_json::{Map, Value, json};

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

/// The table that has rows only with `--events`.
const EVENTS: &str = "events";

/// Rows of each table.
pub struct Tables;

impl View for Tables {
    const FORM: Form = Form {
        name: "fleet-rows",
        body: Body::Data,
        heads: Heads::None,
    };
}

impl JsonSchema for Tables {
    fn schema_name() -> Cow<'static, str> {
        "Tables".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        let run = json!({"type": "string", "description": "The run."});
        let mut properties = Map::from_iter([("run".to_owned(), run)]);
        properties.extend(TABLES.iter().map(|table| {
            let rows =
                json!({"type": "array", "description": table.doc.trim(), "items": row_of(table)});
            (table.name.to_owned(), rows)
        }));
        let mut required: Vec<&str> = vec!["run"];
        let always = TABLES.iter().filter(|table| table.name != EVENTS);
        required.extend(always.map(|table| table.name));
        let mut schema = Schema::default();
        schema.insert("type".into(), "object".into());
        schema.insert("required".into(), json!(required));
        schema.insert("properties".into(), Value::Object(properties));
        schema
    }
}

fn row_of(table: &TableInfo) -> Value {
    let columns = table.columns.iter().map(|column| {
        let kind = match column.kind {
            Kind::Int | Kind::Key | Kind::Time => "integer",
            Kind::Text => "string",
            Kind::Bool => "boolean",
        };
        let kind = match column.is_optional {
            true => json!([kind, "null"]),
            false => json!(kind),
        };
        let about = column.doc.trim();
        (
            column.name.to_owned(),
            json!({"type": kind, "description": about}),
        )
    });
    let names: Vec<&str> = table.columns.iter().map(|column| column.name).collect();
    let columns = Value::Object(columns.collect());
    json!({"type": "object", "properties": columns, "required": names})
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
        output.notes.say(format_args!("partial: {line}"));
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

/// The number of rows, as text.
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

/// An object with a list for each table, one row per line. Events are written while they are read.
fn json(args: &Args, mut taken: Taken, out: &mut dyn Write) -> anyhow::Result<()> {
    write!(
        out,
        "{}{{\n\"run\": ",
        opening::<Tables>(&Captures::InBody)?
    )?;
    serde_json::to_writer(&mut *out, &taken.rows.run)?;
    let mut more = Vec::new();
    if args.events {
        write!(out, ",\n\"events\": [")?;
        let mut before = "\n";
        let written = taken.events(&mut |event| {
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
    out.write_all(b"\n}\n}\n")?;
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
