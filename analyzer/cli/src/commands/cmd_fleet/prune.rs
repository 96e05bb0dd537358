//! `gpumem-analyze fleet prune`.

use std::path::PathBuf;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use gpumem_analyzer::envelope::{Body, Captures, Form, Heads, View};
use gpumem_analyzer::units::many;
use gpumem_dataset::{Dataset, Part, PartName, RANKS, TABLES, name_of};
use schemars::JsonSchema;
use serde::Serialize;

use super::removed;
use crate::args::Format;
use crate::commands::exit::Exit;
use crate::commands::output::Output;

/// `fleet prune`.
#[derive(clap::Args, Debug)]
#[command(group(clap::ArgGroup::new("which").required(true).multiple(true).args(["older_than", "run"])))]
pub struct Args {
    /// Only parts whose captures all ended longer ago than this: 30d, 12h
    #[arg(long, value_name = "TIME", value_parser = age)]
    pub older_than: Option<Duration>,
    /// Only this run. Can be repeated
    #[arg(long, value_name = "NAME")]
    pub run: Vec<String>,
    /// Remove only the rows of this table. Can be repeated
    #[arg(long, value_name = "NAME", value_parser = table)]
    pub table: Vec<&'static str>,
    #[arg(long, hide = true, num_args = 0, default_missing_value = "", value_parser = removed::forget)]
    forget: Option<bool>,
    /// Show what would be removed, without removing it
    #[arg(long)]
    pub dry_run: bool,
    /// Text or JSON
    #[arg(long, value_enum, default_value_t)]
    pub format: Format,
    /// The dataset's folder
    #[arg(value_parser = removed::place)]
    pub dataset: PathBuf,
}

/// Removed parts of the dataset. With `dry_run`, parts that would be removed.
#[derive(Serialize, JsonSchema)]
pub struct Pruned {
    /// Number of parts.
    parts: usize,
    /// Number of captures in these parts.
    captures: usize,
    /// Number of files.
    files: usize,
    /// Size of these files in bytes.
    bytes: u64,
    /// Whether this was a dry run, which removes nothing.
    dry_run: bool,
}

impl View for Pruned {
    const FORM: Form = Form {
        name: "fleet-prune",
        body: Body::Data,
        heads: Heads::None,
    };
}

/// Runs it.
pub fn run(args: &Args, output: &mut Output<'_>) -> anyhow::Result<Exit> {
    if args.table.contains(&RANKS) {
        anyhow::bail!(
            "a part cannot exist without the table ranks: omit --table to remove the whole part"
        );
    }
    if !args.dataset.is_dir() {
        anyhow::bail!("{}: no such folder", args.dataset.display());
    }
    let mut dataset = match args.dry_run {
        true => Dataset::read(&args.dataset)?,
        false => Dataset::open(&args.dataset)?,
    };
    let mut pruned = Pruned {
        parts: 0,
        captures: 0,
        files: 0,
        bytes: 0,
        dry_run: args.dry_run,
    };
    let parts = dataset.parts().clone().into_iter();
    for (name, part) in parts.filter(|(name, part)| args.wants(name, part)) {
        let files = part.tables.iter();
        let files = files.filter(|(table, _)| args.table.is_empty() || args.table.contains(table));
        let bytes: Vec<u64> = files.map(|(_, bytes)| *bytes).collect();
        if bytes.is_empty() {
            continue;
        }
        pruned.parts += 1;
        pruned.captures += part.captures.len();
        pruned.files += bytes.len();
        pruned.bytes += bytes.iter().sum::<u64>();
        if !args.dry_run {
            dataset.prune(&name, &args.table)?;
        }
    }
    match args.format {
        Format::Json => output.json(&Captures::InBody, &pruned)?,
        Format::Text => output.text(&text(&pruned))?,
    }
    Ok(Exit::Complete)
}

fn text(pruned: &Pruned) -> String {
    let done = if pruned.dry_run {
        "would be removed"
    } else {
        "removed"
    };
    format!(
        "{} of {} with {} {done} ({})\n",
        many(pruned.files as u64, "file", "files"),
        many(pruned.parts as u64, "part", "parts"),
        many(pruned.captures as u64, "capture", "captures"),
        gpumem_analyzer::units::bytes(pruned.bytes)
    )
}

impl Args {
    fn wants(&self, name: &PartName, part: &Part) -> bool {
        let is_old = |age: Duration| {
            let now = SystemTime::now()
                .duration_since(UNIX_EPOCH)
                .unwrap_or_default();
            let then = now.saturating_sub(age).as_micros();
            i64::try_from(then).is_ok_and(|then| part.newest < then)
        };
        let is_of_run = self.run.is_empty() || self.run.iter().any(|run| name_of(run) == name.run);
        is_of_run && self.older_than.is_none_or(is_old)
    }
}

fn age(text: &str) -> Result<Duration, String> {
    let wrong = || "expected days or hours: 30d, 12h".to_owned();
    let unit = match text.chars().last() {
        Some('d') => 24 * 3600,
        Some('h') => 3600,
        _ => return Err(wrong()),
    };
    let number: u64 = text
        .get(..text.len() - 1)
        .and_then(|number| number.parse().ok())
        .ok_or_else(wrong)?;
    number
        .checked_mul(unit)
        .map(Duration::from_secs)
        .ok_or_else(wrong)
}

/// A table by its name.
fn table(name: &str) -> Result<&'static str, String> {
    let table = TABLES.iter().find(|table| table.name == name);
    table.map(|table| table.name).ok_or_else(|| {
        let names: Vec<_> = TABLES.iter().map(|table| table.name).collect();
        format!("expected one of {}", names.join(", "))
    })
}
