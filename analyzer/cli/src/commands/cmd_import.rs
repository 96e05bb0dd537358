//! `gpumem-analyze import`.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};
use clap::ValueEnum;
use gpumem_analyzer::account::many;
use gpumem_analyzer::import::{ImportError, torch_snapshot};
use gpumem_files::write::{By, at_path};

use super::exit::Exit;
use super::output::{Output, file_name, quoted};
use super::read::Opened;
use gpumem_analyzer::render::caveats;
use gpumem_analyzer::replay::At;

/// The formats that can be imported.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum From {
    /// PyTorch's snapshot: torch.cuda.memory._dump_snapshot(), or torch.cuda.memory._snapshot() as a pickle
    TorchSnapshot,
}

/// `import`.
#[derive(clap::Args, Debug)]
pub struct Args {
    /// Format of the file
    #[arg(value_enum)]
    pub from: From,
    /// The file to import
    pub file: PathBuf,
    /// The capture to write
    #[arg(short, long, value_name = "OUT.bin")]
    pub output: PathBuf,
}

/// Runs it.
pub fn run(args: &Args, output: &mut Output<'_>) -> anyhow::Result<Exit> {
    let From::TorchSnapshot = args.from;
    let (from, to) = (args.file.display(), args.output.display());
    let bytes = gpumem_files::read::whole(&args.file)
        .with_context(|| format!("{from}: not readable: name a snapshot that you can read"))?;
    let is_other = args.output.metadata().is_ok_and(|facts| !facts.is_file());
    if is_other || args.output == Path::new("-") {
        bail!("cannot write {to}: name a regular file");
    }
    let name = file_name(&args.file);
    let imported = at_path(&args.output, By::User, |part| {
        torch_snapshot(&bytes, &name, part)
    });
    let imported = imported.map_err(|error| match error {
        ImportError::Snapshot(error) => anyhow::anyhow!("{from}: {error}"),
        error => anyhow::anyhow!("cannot write {to}: {error}"),
    })?;
    drop(bytes);
    let session = Opened::open(&args.output)?.read(At::End)?;
    output.text(&caveats(&session.account, output.terminal))?;
    output.text(&format!(
        "{to}: {} of {}, {} written\n",
        many(imported.entries, "trace entry", "trace entries"),
        many(imported.devices, "GPU", "GPUs"),
        many(imported.events, "event", "events"),
    ))?;
    for note in &imported.notes {
        output.text(&format!("  {note}\n"))?;
    }
    output.text(&format!(
        "To read it: gpumem-analyze {}\n",
        quoted(&args.output)
    ))?;
    Ok(Exit::of(&session))
}
