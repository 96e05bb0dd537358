//! `gpumem-analyze ranks`.

use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use gpumem_analyzer::ranks::{Figures, Job, Keys, Mesh, StepWatch, find};
use gpumem_analyzer::render::ranks_text;
use gpumem_analyzer::replay::Query;
use gpumem_analyzer::session;

use super::each::each;
use super::exit::{Exit, explained};
use super::output::Output;
use super::ranks_again::find_steps;
use crate::args::Format;

/// `ranks`.
#[derive(clap::Args, Debug)]
pub struct Args {
    /// Where ranks stand: dimensions and their sizes, as pp=2,dp=4,tp=2; the last one runs fastest. Ranks
    /// that differ in data only (dp, fsdp, …) are compared with one another
    #[arg(long, value_name = "DIMS")]
    pub mesh: Option<Mesh>,
    /// A row for each rank, however many there are
    #[arg(long)]
    pub all: bool,
    /// Text or JSON
    #[arg(long, value_enum, default_value_t)]
    pub format: Format,
    /// A folder with the captures of one job, or the captures
    #[arg(required = true)]
    pub paths: Vec<PathBuf>,
}

/// Runs it.
pub fn run(args: &Args, output: &mut Output<'_>) -> anyhow::Result<Exit> {
    let found = find(&args.paths);
    let read = read_all(&found.captures);
    let mut unreadable = found.unreadable;
    unreadable.extend(read.unreadable);
    if read.figures.is_empty() {
        let named: Vec<_> = args
            .paths
            .iter()
            .map(|path| path.display().to_string())
            .collect();
        let why = unreadable
            .first()
            .map(|why| format!(" ({why})"))
            .unwrap_or_default();
        anyhow::bail!(
            "{}: no capture{why}: name the folder in which the ranks' report.rankN.bin lie",
            named.join(", ")
        );
    }
    let job = Job::of(read.figures, &read.keys, unreadable, args.mesh.as_ref());
    let mut job = job.map_err(|why| anyhow::anyhow!("{why}: name the sizes of all dimensions"))?;
    find_steps(&mut job);
    match args.format {
        Format::Json => output.json(None, &job)?,
        Format::Text => output.text(&ranks_text(&job, args.all, output.terminal))?,
    }
    Ok(if job.is_whole() {
        Exit::Complete
    } else {
        Exit::Partial
    })
}

#[derive(Default)]
struct Read {
    figures: Vec<Figures>,
    keys: Keys,
    unreadable: Vec<String>,
}

/// Reads captures beside one another, one on each processor, in the order of their names.
fn read_all(captures: &[PathBuf]) -> Read {
    let read = Mutex::new(Read::default());
    each(captures, "reading captures", |path| read_one(path, &read));
    let mut read = read.into_inner().unwrap_or_else(PoisonError::into_inner);
    read.figures.sort_by(|a, b| a.row.file.cmp(&b.row.file));
    read.unreadable.sort();
    read
}

fn read_one(path: &Path, read: &Mutex<Read>) {
    let mut watch = StepWatch::default();
    let session = session::read(
        path,
        Query::default(),
        &mut |replay, record, _| watch.observe(replay, &record),
        &mut |_| {},
    );
    let mut read = read.lock().unwrap_or_else(PoisonError::into_inner);
    match session {
        Ok(session) => {
            let figures = Figures::of(path, &session, watch, &mut read.keys);
            read.figures.push(figures);
        }
        Err(error) => read.unreadable.push(explained(path, &error).to_string()),
    }
}
