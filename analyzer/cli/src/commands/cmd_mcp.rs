//! `gpumem-analyze mcp`.

use std::path::PathBuf;

use super::exit::Exit;

/// `mcp`.
#[derive(clap::Args, Debug)]
pub struct Args {
    /// A folder whose captures and sources may be read; may be given again. By default the current one
    #[arg(long, value_name = "DIR")]
    pub root: Vec<PathBuf>,
    /// The Python that has the package gpumem, and PyTorch: whatif is then offered (`gpumem mcp` names its own)
    #[arg(long, value_name = "PYTHON", overrides_with = "python")]
    pub python: Option<PathBuf>,
    /// Offer plan, which runs programs below the folders on a simulated card
    #[arg(long, requires = "python")]
    pub allow_plan: bool,
}

/// Runs it. Standard output is the protocol's.
pub fn run(args: &Args) -> anyhow::Result<Exit> {
    gpumem_mcp::serve(gpumem_mcp::Options {
        roots: args.root.clone(),
        python: args.python.clone(),
        runs_programs: args.allow_plan,
    })?;
    Ok(Exit::Complete)
}
