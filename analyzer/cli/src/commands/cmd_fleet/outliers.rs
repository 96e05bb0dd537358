//! `gpumem-analyze fleet outliers`.

use std::path::PathBuf;

use gpumem_analyzer::envelope::{Body, Captures, Heads, View};
use gpumem_analyzer::fleet::{FleetOutliers, OutlierRow, Outlying};
use gpumem_analyzer::render::fleet_outliers_text;
use schemars::JsonSchema;
use serde::Serialize;

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

/// Ranks that differ from their peers, of all runs.
#[derive(Serialize, JsonSchema)]
pub struct Outliers {
    /// Number of captures that were compared.
    captures: u64,
    /// Number of their runs.
    runs: u64,
    /// Lines that make ranks differ, the rank with the largest sum of differences first; at most five for each figure
    /// of a rank.
    rows: Vec<OutlierRow>,
}

impl View for Outliers {
    const NAME: &'static str = "fleet-outliers";
    const BODY: Body = Body::Data;
    const HEADS: Heads = Heads::None;
}

/// Runs it.
pub fn run(args: &Args, output: &mut Output<'_>) -> anyhow::Result<Exit> {
    let found = FleetOutliers::of(&args.rows, args.top)?;
    match args.format {
        Format::Json => {
            let rows = found.ranks.iter().flat_map(Outlying::rows).collect();
            let (captures, runs) = (found.captures, found.runs);
            output.json(
                &Captures::InBody,
                &Outliers {
                    captures,
                    runs,
                    rows,
                },
            )?;
        }
        Format::Text => output.text(&fleet_outliers_text(&found, output.terminal))?,
    }
    Ok(Exit::Complete)
}
