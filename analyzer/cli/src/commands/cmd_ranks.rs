//! `gpumem-analyze ranks`.

mod flamegraph;
mod pictures;

use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use gpumem_analyzer::ask::CaptureFile;
use gpumem_analyzer::captures;
use gpumem_analyzer::envelope::Captures;
use gpumem_analyzer::ranks::{DrawnWatch, Figures, Job, Keys, Mesh, StepWatch};
use gpumem_analyzer::render::ranks_text;
use gpumem_analyzer::replay::Query;

use super::each::each;
use super::exit::{Exit, explained};
use super::output::Output;
use super::ranks_again::find_steps;
use crate::args::Format;
use pictures::Pictures;
#[cfg(feature = "full")]
pub use pictures::WithTimeline;

/// `ranks`.
#[derive(clap::Args, Debug)]
pub struct Args {
    /// Dimensions of the job's parallelism and their sizes, such as pp=2,dp=4,tp=2; the last one varies fastest.
    /// Ranks that differ only in data dimensions (dp, fsdp, …) are compared with each other
    #[arg(long, value_name = "DIMS")]
    pub mesh: Option<Mesh>,
    /// Show a row for every rank, also in large jobs
    #[arg(long, conflicts_with_all = ["timeline", "output", "flamegraph"])]
    pub all: bool,
    /// Text or JSON
    #[arg(long, value_enum, default_value_t)]
    pub format: Format,
    /// Pictures.
    #[command(flatten)]
    pub pictures: Pictures,
    /// A folder with the captures of one job, or the captures themselves
    #[arg(required = true)]
    pub paths: Vec<PathBuf>,
}

/// Runs it.
pub fn run(args: &Args, output: &mut Output<'_>) -> anyhow::Result<Exit> {
    let found = captures::find(&args.paths);
    let read = read_all(&found.captures, args.pictures.columns(found.captures.len()));
    let mut unreadable = found.unreadable;
    unreadable.extend(read.unreadable);
    let named = args.paths.iter().map(|path| path.display().to_string());
    let named = named.collect::<Vec<_>>().join(" ");
    if read.figures.is_empty() {
        let why = unreadable
            .first()
            .map(|why| format!(" ({why})"))
            .unwrap_or_default();
        anyhow::bail!("{named}: no capture{why}: name the folder with the ranks' report.rankN.bin");
    }
    let job = Job::of(read.figures, &read.keys, unreadable, args.mesh.as_ref());
    let mut job = job.map_err(|why| anyhow::anyhow!("{why}: name the sizes of all dimensions"))?;
    find_steps(&mut job);
    match args.format {
        _ if args.pictures.any() => args.pictures.draw(&job, (&named, args.format), output)?,
        Format::Json => output.json(&Captures::InBody, &job)?,
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

/// Reads captures in parallel, one on each CPU, in the order of their names.
fn read_all(captures: &[PathBuf], columns: Option<usize>) -> Read {
    let read = Mutex::new(Read::default());
    each(captures, "reading captures", |path| {
        read_one(path, columns, &read);
    });
    let mut read = read.into_inner().unwrap_or_else(PoisonError::into_inner);
    read.figures.sort_by(|a, b| a.row.file.cmp(&b.row.file));
    read.unreadable.sort();
    read
}

fn read_one(path: &Path, columns: Option<usize>, read: &Mutex<Read>) {
    let mut watch = StepWatch::default();
    let session = CaptureFile::open(path).and_then(|mut capture| {
        let mut drawn = DrawnWatch::new(capture.header().started_wall_ns, columns);
        let session = capture.read_with(Query::default(), &mut |replay, record, _| {
            watch.observe(replay, &record);
            drawn.observe(replay, &record);
        })?;
        Ok((session, drawn))
    });
    let mut read = read.lock().unwrap_or_else(PoisonError::into_inner);
    match session {
        Ok((session, drawn)) => {
            let mut figures = Figures::of(path, &session, watch, &mut read.keys);
            figures.drawn = drawn.finish(figures.row.device, figures.row.end.at_unix_ns);
            read.figures.push(figures);
        }
        Err(error) => read.unreadable.push(explained(path, &error).to_string()),
    }
}
