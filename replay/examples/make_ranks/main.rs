//! Makes the captures of a whole job from one real capture, for tests and benchmarks of many ranks.
//!
//! ```text
//! make_ranks FROM FOLDER --world N [--ranks A..B] [--per-node N] [--mesh pp=2,dp=4] [--job NAME] [--jobs N]
//!            [--plant RANK:WHAT]...
//! ```
//!
//! Writes FOLDER/report.rankN.bin for each rank of `--ranks` (default: all), with `--jobs` (2) processes at once. Each
//! file has all records of FROM, which must be intact and not bounded. Only the facts of the process differ between
//! ranks: rank, world size, local rank and node (`--per-node`, 8), host name, job name (`--job`), coordinates, the
//! GPU's UUID, and the start time. `--mesh` sets the coordinates, its last dimension varying fastest; the default is
//! those of FROM. `--plant` changes a rank:
//!
//! ```text
//! RANK:times=2:train.py:88@40      the tensors of that line have twice the bytes, from step 40 on
//! RANK:leak=4MiB:train.py:88@40    that line keeps 4 MiB more in each step, from step 40 on
//! RANK:library=libcudnn.so.9:9.2   another build of a library: its file's version and build id
//! RANK:fact=pytorch:2.14.0         another fact of the process, by its key in the capture
//! ```
//! A line is named as `gpumem-analyze lines` names it, or by the end of that name; `@STEP` defaults to 1. The bytes
//! that a plant adds are in a segment that PyTorch takes from the driver when it first needs it. So tensors, reserved
//! and physical memory, and NVML's readings all grow by these bytes, and the capture stays consistent. Addresses are
//! kept, so the enlarged blocks of a line may overlap.

mod job;
mod memory;
mod plant;
mod write;

use std::path::Path;
use std::process::{Child, Command, ExitCode};

use job::Job;
use write::write;

/// Captures that one process writes. The limit exists because the rings of finished captures stay in its memory.
const CHUNK: u64 = 64;

/// Writes the captures of some ranks in this process.
fn write_here(job: &Job, from: &Path, folder: &Path) -> Result<(), String> {
    for rank in job.ranks.clone() {
        let path = folder.join(format!("report.rank{rank}.bin"));
        write(job, rank, from, &path).map_err(|why| format!("{}: {why}", path.display()))?;
    }
    Ok(())
}

/// Writes the captures in processes of [`CHUNK`] ranks each.
fn write_all(job: &Job, arguments: &[String]) -> Result<(), String> {
    let program = std::env::current_exe().map_err(|error| error.to_string())?;
    let mut running: Vec<Child> = Vec::new();
    let ended = |mut child: Child| match child.wait() {
        Ok(status) if status.success() => Ok(()),
        _ => Err("a part of them could not be written".to_owned()),
    };
    let mut first = job.ranks.start;
    while first < job.ranks.end {
        if running.len() >= job.jobs {
            ended(running.remove(0))?;
        }
        let last = (first + CHUNK).min(job.ranks.end);
        let mut command = Command::new(&program);
        command.args(arguments);
        command.args(["--ranks", &format!("{first}..{last}"), "--jobs", "0"]);
        running.push(command.spawn().map_err(|error| error.to_string())?);
        first = last;
    }
    running.into_iter().try_for_each(ended)
}

fn run(arguments: &[String]) -> Result<(), String> {
    let [from, folder, options @ ..] = arguments else {
        return Err("usage: make_ranks FROM FOLDER --world N …: see the top of main.rs".into());
    };
    let job = Job::parse(options)?;
    let (from, folder) = (Path::new(from), Path::new(folder));
    if job.jobs == 0 {
        return write_here(&job, from, folder);
    }
    std::fs::create_dir_all(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    write_all(&job, arguments)
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match run(&arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("make_ranks: {why}");
            ExitCode::from(2)
        }
    }
}
