//! `gpumem-analyze mcp`.

use std::path::PathBuf;

use super::exit::Exit;

/// `mcp`.
#[derive(clap::Args, Debug)]
pub struct Args {
    /// A folder whose captures and sources can be read. Can be repeated. Default: the current folder
    #[arg(long, value_name = "DIR")]
    pub root: Vec<PathBuf>,
    /// Offer the tool whatif, with this Python, which must have gpumem and PyTorch (`gpumem mcp` sets it)
    #[arg(long, value_name = "PYTHON", overrides_with = "python")]
    pub python: Option<PathBuf>,
    /// Offer the tool plan, which runs programs in the folders on a simulated card
    #[arg(long, requires = "python")]
    pub allow_plan: bool,
}

/// Runs it. Standard output carries the protocol.
pub fn run(args: &Args) -> anyhow::Result<Exit> {
    gpumem_mcp::serve(gpumem_mcp::Options {
        roots: args.root.clone(),
        python: args.python.clone(),
        runs_programs: args.allow_plan,
    })?;
    Ok(Exit::Complete)
}
