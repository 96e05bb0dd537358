//! The folder of the history, with one Parquet file per run.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use gpumem_analyzer::export::{past_peaks_parquet, read_past_peaks};
use gpumem_analyzer::render::bytes;
use gpumem_analyzer::views::ci::PastPeak;
use sha2::{Digest as _, Sha256};

use crate::commands::output::{Notes, To};

/// Adds rows in a separate file, without those whose commit and workload exist already; returns all rows.
pub fn append(
    folder: &Path,
    new: Vec<PastPeak>,
    notes: &mut Notes<'_>,
) -> anyhow::Result<Vec<PastPeak>> {
    std::fs::create_dir_all(folder)
        .with_context(|| format!("cannot create the folder {}", folder.display()))?;
    let mut all = read(folder)?;
    let known: BTreeMap<_, u64> = all.iter().map(|row| (row.key(), row.peak_bytes)).collect();
    for row in &new {
        if let Some(before) = known
            .get(&row.key())
            .filter(|before| **before != row.peak_bytes)
        {
            notes.say(format_args!(
                "the history keeps {} for {} at {}; the new measurement is {}",
                bytes(*before),
                row.workload,
                &row.commit,
                bytes(row.peak_bytes)
            ));
        }
    }
    let new: Vec<PastPeak> = new
        .into_iter()
        .filter(|row| !known.contains_key(&row.key()))
        .collect();
    if let Some(first) = new.first() {
        let file = folder.join(name(first, &new));
        let contents = past_peaks_parquet(&new)?;
        To::named(&file).write(&contents)?;
        all.extend(new);
    }
    Ok(all)
}

/// The file's name, derived from the rows, so that two runs of one commit write the same file.
fn name(first: &PastPeak, rows: &[PastPeak]) -> String {
    let mut hash = Sha256::new();
    for row in rows {
        hash.update(format!("{:?}\n", row.key()));
    }
    let mut name = format!("{}-", first.commit);
    for byte in &hash.finalize()[..4] {
        let _ = write!(name, "{byte:02x}");
    }
    name + ".parquet"
}

fn read(folder: &Path) -> anyhow::Result<Vec<PastPeak>> {
    let entries =
        std::fs::read_dir(folder).with_context(|| format!("cannot read {}", folder.display()))?;
    let paths = entries.map(|entry| entry.map(|entry| entry.path()));
    let mut paths: Vec<PathBuf> = paths.collect::<Result<_, _>>()?;
    paths.retain(|path| {
        path.extension()
            .is_some_and(|extension| extension == "parquet")
    });
    paths.sort_unstable();
    let mut rows = Vec::new();
    for path in paths {
        let contents = gpumem_files::read::whole(&path)
            .with_context(|| format!("cannot read {}", path.display()))?;
        let read = read_past_peaks(contents);
        rows.extend(read.map_err(|error| {
            anyhow::anyhow!(
                "{}: not a history of peaks ({error}): remove the file from the folder",
                path.display()
            )
        })?);
    }
    Ok(rows)
}
