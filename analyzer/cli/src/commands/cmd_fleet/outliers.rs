//! `gpumem-analyze fleet outliers`.

use std::path::PathBuf;

use gpumem_analyzer::envelope::Captures;
use gpumem_analyzer::fleet::FleetOutliers;
use gpumem_analyzer::render::fleet_outliers_text;

use crate::args::Format;
use crate::commands::exit::Exit;
use crate::commands::output::Output;

/// `fleet outliers`.
#[derive(clap::Args, Debug)]
pub struct Args {
    /// The maximum number of ranks
    #[arg(long, value_name = "N", default_value_t = 20)]
    pub top: usize,
    /// Text or JSON
    #[arg(long, value_enum, default_value_t)]
    pub format: Format,
    /// Folders with rows that were selected from a dataset: docs/fleet.md
    #[arg(required = true)]
    pub rows: Vec<PathBuf>,
}

/// Runs it.
pub fn run(args: &Args, output: &mut Output<'_>) -> anyhow::Result<Exit> {
    let found = FleetOutliers::of(&args.rows, args.top)?;
    match args.format {
        Format::Json => output.json(&Captures::InBody, &found)?,
        Format::Text => output.text(&fleet_outliers_text(&found, output.terminal))?,
    }
    Ok(Exit::Complete)
}
