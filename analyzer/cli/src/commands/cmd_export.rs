//! `gpumem-analyze export`.

mod args;
#[cfg(feature = "full")]
mod arrow;
mod course;
#[cfg(feature = "full")]
mod databases;
mod events;
mod stacks;
mod task;

use std::cell::RefCell;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};
use gpumem_analyzer::ask::has_device;
use gpumem_analyzer::export::Steps;
use gpumem_analyzer::replay::At;
use gpumem_analyzer::session::Session;
use gpumem_files::write::{NewFile, temporary_folder};

use super::exit::Exit;
use super::output::{Notes, Output, To, beside};
use super::read::Opened;
use args::Format;
use task::Task;

pub use args::Args;

const WITHOUT_DATABASES: &str = "this gpumem-analyze was built without databases: build all of it with cargo build --release -p gpumem-analyze";

/// Runs it.
pub fn run(args: &Args, output: &mut Output<'_>) -> anyhow::Result<Exit> {
    args.check()?;
    let file = &args.part.capture(&args.file);
    let to_stdout = args.is_to_stdout();
    if to_stdout && !args.format.is_text() && output.is_terminal {
        bail!("binary output is not written to a terminal: name a file with -o, or use a pipe");
    }
    #[cfg(feature = "full")]
    if args.format == Format::Arrow {
        return deliver(args, file, output, &mut |out, notes| {
            let (said, session) = arrow::write(args, file, out)?;
            if let Some(device) = args.part.device {
                has_device(&session, device)?;
            }
            notes.caveats(&session);
            notes.bounded(&session, "events");
            Ok((said, Exit::of(&session)))
        });
    }
    let mut capture = Opened::open(file)?;
    let (first, steps) = first(args, &mut capture)?;
    output.notes.caveats(&first);
    let over_time = args.format.is_of_events()
        || matches!(args.format, Format::Perfetto | Format::TorchSnapshot);
    if over_time {
        output.notes.bounded(&first, "events");
    }
    let task = Task {
        args,
        file,
        capture: RefCell::new(capture),
        first: &first,
        steps,
        folder: folder(&to(args, file).path, to_stdout),
    };
    deliver(args, file, output, &mut |out, notes| {
        Ok((write(&task, out, notes)?, Exit::of(&first)))
    })
}

/// The output file.
fn to(args: &Args, file: &Path) -> To {
    To::new(args.output.as_deref(), || {
        beside(file, args.format.suffix())
    })
}

/// A folder for temporary files.
fn folder(path: &Path, to_stdout: bool) -> PathBuf {
    match to_stdout {
        true => std::env::temp_dir(),
        false => temporary_folder(path),
    }
}

/// The description of the output, and the exit code.
type Written = anyhow::Result<(String, Exit)>;

/// Writes to standard output, or to a file and then prints its description.
fn deliver(
    args: &Args,
    file: &Path,
    output: &mut Output<'_>,
    write: &mut dyn FnMut(&mut dyn Write, &mut Notes<'_>) -> Written,
) -> anyhow::Result<Exit> {
    if args.is_to_stdout() {
        return Ok(write(output.out, &mut output.notes)?.1);
    }
    let to = to(args, file);
    to.check()?;
    let refused = || to.refused();
    let mut out = BufWriter::new(NewFile::create(&to.path, to.by).with_context(refused)?);
    let (said, exit) = write(&mut out, &mut output.notes)?;
    let done = out.into_inner().map_err(|error| error.into_error());
    done.and_then(NewFile::finish).with_context(refused)?;
    output.text(&format!("{}: {said}\n", to.path.display()))?;
    Ok(exit)
}

/// The first reading: everything that the second one and the names need, and figures of the peak and the end.
fn first(args: &Args, capture: &mut Opened) -> anyhow::Result<(Session, Steps)> {
    let moment = match args.format {
        Format::Folded | Format::Firefox => args.at.unwrap_or_default(),
        Format::Speedscope | Format::Pprof => At::Peak,
        _ => At::End,
    };
    let mut steps = Steps::default();
    let session = capture.read_with(args.query(moment), &mut |_, record, _| {
        steps.observe(record);
    })?;
    if let Some(device) = args.part.device {
        has_device(&session, device)?;
    }
    Ok((session, steps))
}

/// Writes the output; returns its description.
fn write(task: &Task<'_>, out: &mut dyn Write, notes: &mut Notes<'_>) -> anyhow::Result<String> {
    match task.args.format {
        Format::Folded => task.folded(out),
        Format::Speedscope => task.speedscope(out),
        Format::Pprof => task.pprof(out, notes),
        Format::Perfetto => task.perfetto(out),
        Format::Firefox => task.firefox(out),
        Format::Csv => task.csv(out),
        #[cfg(feature = "full")]
        Format::Sqlite => task.sqlite(out),
        #[cfg(feature = "full")]
        Format::Parquet => task.parquet(out),
        // In a full build it is written from a survey.
        Format::Arrow => bail!(WITHOUT_DATABASES),
        #[cfg(not(feature = "full"))]
        Format::Sqlite | Format::Parquet => bail!(WITHOUT_DATABASES),
        Format::TorchSnapshot => task.torch_snapshot(out),
    }
}
