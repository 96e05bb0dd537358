//! `gpumem-analyze fleet fetch`.

use std::collections::BTreeSet;

use gpumem_analyzer::envelope::{Body, Captures, Heads, View};
use gpumem_dataset::{DataFile, Found, RANKS, Store, name_of};
use schemars::JsonSchema;
use serde::Serialize;

use super::places::{StoreArgs, many};
use crate::args::Format;
use crate::commands::each::in_order;
use crate::commands::exit::Exit;
use crate::commands::output::Output;

/// `fleet fetch`.
#[derive(clap::Args, Debug)]
pub struct Args {
    /// Only this run. Can be repeated. Default: all runs
    #[arg(long, value_name = "NAME")]
    pub run: Vec<String>,
    /// Only this table. Can be repeated. Default: all tables
    #[arg(long, value_name = "NAME", value_parser = super::prune::table)]
    pub table: Vec<&'static str>,
    /// How stores are opened.
    #[command(flatten)]
    pub store: StoreArgs,
    /// Text or JSON
    #[arg(long, value_enum, default_value_t)]
    pub format: Format,
    /// The dataset: a folder or an object store
    pub dataset: String,
    /// The folder to copy to. Missing files are copied; files that the dataset no longer has are removed
    pub folder: String,
}

/// Result of copying a dataset to a folder.
#[derive(Serialize, JsonSchema)]
pub struct Fetched {
    /// Number of copied files.
    copied: usize,
    /// Size of the copied files in bytes.
    bytes: u64,
    /// Number of files that were already in the folder.
    kept: usize,
    /// Number of removed files.
    removed: usize,
}

impl View for Fetched {
    const NAME: &'static str = "fleet-fetch";
    const BODY: Body = Body::Data;
    const HEADS: Heads = Heads::None;
}

/// Runs it.
pub fn run(args: &Args, output: &mut Output<'_>) -> anyhow::Result<Exit> {
    if Store::is_remote(&args.folder) {
        anyhow::bail!("{}: not a folder of this machine: name one", args.folder);
    }
    let dataset = args.store.dataset(&args.dataset)?;
    let copy = args.store.dataset(&args.folder)?;
    if !copy.parts().is_empty() {
        anyhow::bail!(
            "{}: this folder is a dataset itself: name another folder",
            args.folder
        );
    }
    copy.store().sweep()?;
    let wants = |file: &DataFile| {
        let is_of_run = args.run.is_empty() || args.run.iter().any(|run| name_of(run) == file.run);
        is_of_run && (args.table.is_empty() || args.table.contains(&file.table))
    };
    // A part is copied only if its file of `ranks` exists.
    let whole: BTreeSet<(&str, &str)> = dataset
        .files()
        .keys()
        .filter(|file| file.table == RANKS)
        .map(|file| (&*file.run, &*file.part))
        .collect();
    let is_whole = |file: &DataFile| whole.contains(&(&*file.run, &*file.part));
    let there = dataset.files().iter();
    let there: Vec<(&DataFile, &Found)> = there
        .filter(|(file, _)| wants(file) && is_whole(file))
        .collect();
    let mut fetched = Fetched {
        copied: 0,
        bytes: 0,
        kept: 0,
        removed: 0,
    };
    // `ranks` make a part complete, so they are removed first and copied last.
    let mut gone: Vec<&DataFile> = copy.files().keys().filter(|file| wants(file)).collect();
    gone.retain(|file| !there.iter().any(|(other, _)| other == file));
    gone.sort_by_key(|file| file.table != RANKS);
    for file in gone {
        copy.store().delete(&file.path())?;
        fetched.removed += 1;
    }
    let (kept, mut missing): (Vec<_>, Vec<_>) = there
        .into_iter()
        .partition(|(file, _)| copy.files().contains_key(file));
    fetched.kept = kept.len();
    missing.sort_by_key(|(file, _)| (file.table == RANKS, *file));
    let tables = missing.partition_point(|(file, _)| file.table != RANKS);
    let (tables, ranks) = missing.split_at(tables);
    for files in [tables, ranks] {
        in_order(
            files,
            "copying files",
            |(file, found)| one(&dataset, &copy, file, found),
            |(_, found), done| {
                fetched.copied += 1;
                fetched.bytes += found.bytes;
                done
            },
        )?;
    }
    match args.format {
        Format::Json => output.json(&Captures::InBody, &fetched)?,
        Format::Text => output.text(&format!(
            "{} copied ({}), {} unchanged, {} removed\n",
            many(fetched.copied, "file"),
            gpumem_analyzer::units::bytes(fetched.bytes),
            fetched.kept,
            fetched.removed
        ))?,
    }
    Ok(Exit::Complete)
}

fn one(
    dataset: &gpumem_dataset::Dataset,
    copy: &gpumem_dataset::Dataset,
    file: &DataFile,
    found: &Found,
) -> anyhow::Result<()> {
    let part = tempfile::NamedTempFile::new()?;
    dataset.store().download(found, part.path())?;
    copy.store().put_file(&file.path(), part.path())?;
    Ok(())
}
