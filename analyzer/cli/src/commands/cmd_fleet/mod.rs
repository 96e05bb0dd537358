//! `gpumem-analyze fleet`.

mod commit;
mod fetch;
mod ingest;
mod part;
mod places;
mod prune;
mod rows;
mod sources;
mod stage;
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
        gpumem-analyze fleet ingest s3://bucket/captures s3://bucket/gpumem\n  \
        gpumem-analyze fleet ingest --run nightly --label team=vision captures/ fleet/\n\n\
        Captures that the dataset has are skipped: if you repeat the command, it changes no data."
    )]
    Ingest(ingest::Args),
    /// Write a capture's rows next to a dataset, for `fleet commit`
    #[command(after_help = "Examples:\n  gpumem-analyze fleet stage report.bin fleet/")]
    Stage(stage::Args),
    /// Add staged captures to a dataset
    #[command(after_help = "Examples:\n  gpumem-analyze fleet commit fleet/\n  \
        gpumem-analyze fleet commit --run nightly --part 0/4 fleet/")]
    Commit(commit::Args),
    /// Copy a dataset's files to a folder, for programs that cannot read object stores
    #[command(
        after_help = "Examples:\n  gpumem-analyze fleet fetch s3://bucket/gpumem copy/\n  \
        gpumem-analyze fleet fetch --table ranks --table held s3://bucket/gpumem copy/"
    )]
    Fetch(fetch::Args),
    /// Remove runs, tables or old captures from a dataset
    #[command(
        after_help = "Examples:\n  gpumem-analyze fleet prune --older-than 30d --dry-run fleet/\n  \
        gpumem-analyze fleet prune --run nightly --table events fleet/\n  \
        gpumem-analyze fleet prune --run nightly --forget fleet/"
    )]
    Prune(prune::Args),
    /// Print the rows that ingest stores of a capture
    #[command(
        after_help = "Examples:\n  gpumem-analyze fleet rows --format json report.bin | jq '.data.held[0]'\n  \
        gpumem-analyze fleet rows --hash-paths --format json report.bin | grep train.py    # before you share it"
    )]
    Rows(rows::Args),
}

/// Runs it.
pub fn run(args: &Args, output: &mut Output<'_>) -> anyhow::Result<Exit> {
    match &args.command {
        Command::Ingest(args) => ingest::run(args, output),
        Command::Stage(args) => stage::run(args, output),
        Command::Commit(args) => commit::run(args, output),
        Command::Fetch(args) => fetch::run(args, output),
        Command::Prune(args) => prune::run(args, output),
        Command::Rows(args) => rows::run(args, output),
    }
}

/// Forms of the results in JSON.
#[cfg(test)]
pub mod forms {
    pub use super::fetch::Fetched;
    pub use super::ingest::Summary;
    pub use super::prune::Pruned;
    pub use super::rows::Tables;
    pub use super::stage::Staged;
}
