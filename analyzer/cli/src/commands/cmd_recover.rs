//! `gpumem-analyze recover`.

use std::path::PathBuf;

use anyhow::Context as _;
use gpumem_capture::{Merged, Reader, merge, merge_held};

use super::exit::{Exit, explained};
use super::output::Output;

/// `recover`.
#[derive(clap::Args, Debug)]
pub struct Args {
    /// The capture's ring, if the ring has no file name: /dev/fd/N of a descriptor that was held open
    #[arg(long, value_name = "FILE")]
    pub ring: Option<PathBuf>,
    /// The capture
    pub file: PathBuf,
}

/// Runs it.
pub fn run(args: &Args, output: &mut Output<'_>) -> anyhow::Result<Exit> {
    let reader = Reader::open(&args.file).map_err(|error| explained(&args.file, &error.into()))?;
    let merged = match &args.ring {
        None => merge(&args.file)?,
        Some(ring) => {
            let held = gpumem_files::read::open(ring);
            merge_held(
                &args.file,
                held.with_context(|| ring.display().to_string())?,
            )?
        }
    };
    let said = match merged {
        Merged::Done => "wrote the events that its process left in memory to the capture",
        Merged::InUse if reader.header().is_running() => "its process is still running",
        Merged::InUse => "another program is recovering it",
        Merged::OfAnotherUser => "it belongs to another user: recover it as that user",
        _ => "no events to recover",
    };
    output.text(&format!("{}: {said}\n", args.file.display()))?;
    Ok(Exit::Complete)
}
