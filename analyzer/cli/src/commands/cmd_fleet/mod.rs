//! `gpumem-analyze fleet`.

mod ingest;
mod outliers;
mod prune;
mod removed;
mod rows;
mod take;
mod taking;

use clap::Subcommand;

use super::exit::Exit;
use super::output::Output;

/// `fleet`.
#[derive(clap::Args, Debug)]
pub struct Args {
    /// What to do with a dataset.
    #[command(subcommand)]
    pub command: Command,
}

/// The subcommands of `fleet`.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Add captures to a dataset
    #[command(
        after_help = "Examples:\n  gpumem-analyze fleet ingest captures/ fleet/\n  \
        gpumem-analyze fleet ingest --run nightly --label team=vision captures/ fleet/\n\n\
        Captures that the dataset has are skipped: if you repeat the command, it changes no data."
    )]
    Ingest(ingest::Args),
    /// Remove runs, tables or old captures from a dataset
    #[command(
        after_help = "Examples:\n  gpumem-analyze fleet prune --older-than 30d --dry-run fleet/\n  \
        gpumem-analyze fleet prune --run nightly --table events fleet/"
    )]
    Prune(prune::Args),
    /// Print the rows that ingest stores of a capture
    #[command(
        after_help = "Examples:\n  gpumem-analyze fleet rows --format json report.bin | jq '.data.held[0]'\n  \
        gpumem-analyze fleet rows --hash-paths --format json report.bin | grep train.py    # before you share it"
    )]
    Rows(rows::Args),
    /// Show which ranks differ from their peers, by rows that were selected from a dataset
    #[command(
        after_help = "Examples:\n  gpumem fleet query outliers fleet/                # selects the rows by DuckDB, and runs this\n  \
        gpumem-analyze fleet outliers rows/                 # rows that Spark selected: docs/fleet.md"
    )]
    Outliers(outliers::Args),
    #[command(hide = true)]
    Stage(removed::Args),
    #[command(hide = true)]
    Commit(removed::Args),
    #[command(hide = true)]
    Fetch(removed::Args),
}

/// The new way to ingest on many machines.
const INGEST: &str =
    "ingest each machine's captures into a folder there, then `aws s3 sync` the folders into one";
/// The new way to read a dataset in an object store.
const FETCH: &str =
    "`gpumem fleet query` reads object stores; `aws s3 sync` and `rclone copy` copy a dataset";

/// Runs it.
pub fn run(args: &Args, output: &mut Output<'_>) -> anyhow::Result<Exit> {
    match &args.command {
        Command::Ingest(args) => ingest::run(args, output),
        Command::Prune(args) => prune::run(args, output),
        Command::Rows(args) => rows::run(args, output),
        Command::Outliers(args) => outliers::run(args, output),
        Command::Stage(_) => Err(removed::command("stage", INGEST)),
        Command::Commit(_) => Err(removed::command("commit", INGEST)),
        Command::Fetch(_) => Err(removed::command("fetch", FETCH)),
    }
}

/// Forms of the results in JSON.
pub mod forms {
    pub use super::ingest::Summary;
    pub use super::prune::Pruned;
    pub use super::rows::Tables;
}
