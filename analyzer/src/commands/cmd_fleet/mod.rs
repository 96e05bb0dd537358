//! `gpumem-analyze fleet`.

mod rows;
mod take;

use clap::Subcommand;

use super::exit::Exit;
use super::output::Output;

/// `fleet`.
#[derive(clap::Args, Debug)]
pub struct Args {
    /// Which task.
    #[command(subcommand)]
    pub command: Command,
}

/// The tasks.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// What ingest takes of a capture: its rows of each table
    #[command(
        after_help = "Examples:\n  gpumem-analyze fleet rows --format json report.bin | jq '.held[0]'\n  \
        gpumem-analyze fleet rows --hash-paths --format json report.bin | grep train.py    # before you share it"
    )]
    Rows(rows::Args),
}

/// Runs it.
pub fn run(args: &Args, output: &mut Output<'_>) -> anyhow::Result<Exit> {
    match &args.command {
        Command::Rows(args) => rows::run(args, output),
    }
}
