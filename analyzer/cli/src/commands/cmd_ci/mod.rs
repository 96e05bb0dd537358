//! `gpumem-analyze ci`.

mod captures;
mod git;
mod history;

use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use gpumem_analyzer::envelope::Captures;
use gpumem_analyzer::render::{ci_answer, ci_comment, trend_svg};
use gpumem_analyzer::replay::Query;
use gpumem_analyzer::session::Session;
use gpumem_analyzer::views::ci::{
    Comparison, Day, Growth, Outcome, Rules, Trend, Workload, past_peaks,
};

use super::budgets::file::{self, Budgets};
use super::budgets::quantities;
use super::exit::Exit;
use super::output::{Notes, Output, To};
use super::read::Opened;
use crate::args::Format;
use crate::selection::LevelArg;
use captures::{Pair, pairs};

/// The number of commits in the trend.
const COMMITS: usize = 100;

/// `ci`.
#[derive(clap::Args, Debug)]
pub struct Args {
    /// The capture before the change, or a folder of captures
    #[arg(long, value_name = "PATH")]
    pub base: Option<PathBuf>,
    /// The capture after the change, or a folder. Captures in folders are matched by file name
    #[arg(long, value_name = "PATH")]
    pub head: PathBuf,
    /// Name of the workload, if --head is a file. Default: the file's name without .bin
    #[arg(long, value_name = "NAME")]
    pub workload: Option<String>,
    /// Exit with code 4 if a peak grew by more than this: 2%, 64MiB
    #[arg(long, value_name = "GROWTH", requires = "base", value_parser = quantities::growth)]
    pub fail_over: Option<Growth>,
    /// The level. Default: tensor, or driver if the capture has no tensors
    #[arg(long, value_enum)]
    pub level: Option<LevelArg>,
    /// The file of budgets. Default: gpumem.toml in the current folder or the nearest one above it
    #[arg(long, value_name = "FILE")]
    pub budgets: Option<PathBuf>,
    /// The day for which allowances are checked, such as 2026-12-31. Default: today (UTC)
    #[arg(long, value_name = "DAY", value_parser = quantities::day)]
    pub today: Option<Day>,
    /// Write the comment to this file instead of printing it
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Add the head's peaks to the history in this folder, as one Parquet file for each run
    #[arg(long, value_name = "DIR")]
    pub history: Option<PathBuf>,
    /// The commit that was measured. Default: git's HEAD
    #[arg(long, value_name = "SHA", requires = "history", value_parser = git::hash)]
    pub commit: Option<String>,
    /// The time of the commit, such as 2026-12-31T10:00:00Z. Default: the commit's time in git
    #[arg(long, value_name = "DATE", requires = "history", value_parser = git::date)]
    pub date: Option<i64>,
    /// Write a chart of the peaks of the last 100 commits to this file (SVG)
    #[arg(long, value_name = "FILE", requires = "history")]
    pub trend: Option<PathBuf>,
    /// Format of the comment
    #[arg(long, value_enum, default_value_t)]
    pub format: Format,
}

/// Runs it.
pub fn run(args: &Args, output: &mut Output<'_>) -> anyhow::Result<Exit> {
    let budgets = budgets(args.budgets.as_deref())?;
    let level = args.level.map(Into::into);
    let mut workloads = Vec::new();
    for Pair { name, base, head } in
        pairs(args.base.as_deref(), &args.head, args.workload.as_deref())?
    {
        let (base, head) = (session(base.as_deref())?, session(head.as_deref())?);
        workloads.push(Workload::of(&name, base.as_ref(), head.as_ref(), level));
    }
    let rules = Rules {
        fail_over: args.fail_over,
        budgets: budgets.budgets,
        allowances: budgets.allowances,
        today: args.today.unwrap_or_else(today),
        are_all_expected: args.head.is_dir(),
    };
    let comparison = Comparison::judge(workloads, rules);
    if let Some(file) = &args.output {
        let comment = ci_comment(&comparison);
        match args.format {
            Format::Text => {
                output.deliver(
                    &To::named(file),
                    comment.as_bytes(),
                    &ci_answer(&comparison),
                )?;
            }
            Format::Json => To::named(file).write(comment.as_bytes())?,
        }
    }
    match args.format {
        Format::Json => output.json(&Captures::InBody, &comparison)?,
        Format::Text if args.output.is_none() => {
            output.out.write_all(ci_comment(&comparison).as_bytes())?;
        }
        Format::Text => {}
    }
    if let Some(folder) = &args.history {
        keep(args, folder, &comparison, &mut output.notes)?;
    }
    Ok(match comparison.outcome {
        Outcome::Passes => Exit::Complete,
        Outcome::Unjudged => Exit::Partial,
        Outcome::Fails => Exit::Beyond,
    })
}

/// Adds the head's peaks to the history, and draws it.
fn keep(
    args: &Args,
    folder: &Path,
    comparison: &Comparison,
    notes: &mut Notes<'_>,
) -> anyhow::Result<()> {
    let commit = git::commit(args.commit.as_deref(), args.date)?;
    let new = past_peaks(comparison, &commit.hash, commit.seconds);
    let rows = history::append(folder, new, notes)?;
    if let Some(file) = &args.trend {
        let picture = trend_svg(&Trend::of(&rows, COMMITS));
        To::named(file).write(picture.as_bytes())?;
    }
    Ok(())
}

fn session(path: Option<&Path>) -> anyhow::Result<Option<Session>> {
    path.map(|path| Opened::open(path)?.read(Query::default()))
        .transpose()
}

/// The budgets of the given file, or of the one that is found.
fn budgets(named: Option<&Path>) -> anyhow::Result<Budgets> {
    let found = match named {
        Some(path) => Some(path.to_owned()),
        None => file::find(&std::env::current_dir()?),
    };
    found.map_or_else(|| Ok(Budgets::default()), |path| file::read(&path))
}

fn today() -> Day {
    let passed = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    Day::of_unix(i64::try_from(passed.as_secs()).unwrap_or(i64::MAX))
}
