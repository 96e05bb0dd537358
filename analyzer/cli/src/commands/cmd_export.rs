//! `gpumem-analyze export`.

mod args;
mod course;
#[cfg(feature = "full")]
mod databases;
mod events;
mod stacks;
mod task;

use std::fs::File;
use std::io::{BufWriter, IsTerminal as _, Write};
use std::path::Path;

use anyhow::{Context as _, bail};
use gpumem_analyzer::export::Steps;
use gpumem_analyzer::replay::At;
use gpumem_analyzer::session::Session;

use super::exit::{Exit, say_caveats};
use super::output::{Output, beside, in_its_place};
use super::read::read_with;
use crate::devices;
use args::Format;
use task::Task;

pub use args::Args;

/// Runs it.
pub fn run(args: &Args, output: &mut Output<'_>) -> anyhow::Result<Exit> {
    args.check()?;
    let file = &args.part.capture(&args.file);
    let to_stdout = args.output.as_deref() == Some(Path::new("-"));
    if to_stdout && !args.format.is_text() && std::io::stdout().is_terminal() {
        bail!("binary output is not written to a terminal: name a file with -o, or use a pipe");
    }
    let (first, steps) = first(args, file)?;
    say_caveats(&first);
    let over_time = args.format.is_of_events()
        || matches!(args.format, Format::Perfetto | Format::TorchSnapshot);
    if let (Some(restored), true) = (first.replay.restored, over_time) {
        eprintln!(
            "gpumem-analyze: a bounded capture keeps only its newest records: events before {} are missing",
            restored.from.0
        );
    }
    let path = args
        .output
        .clone()
        .unwrap_or_else(|| beside(file, args.format.suffix()));
    let special = path.symlink_metadata().is_ok_and(|facts| !facts.is_file());
    let task = Task {
        args,
        file,
        first: &first,
        steps,
        folder: match path.parent() {
            _ if to_stdout || special => std::env::temp_dir(),
            Some(folder) if folder != Path::new("") => folder.to_owned(),
            _ => ".".into(),
        },
    };
    if to_stdout {
        write(&task, output.out)?;
        return Ok(Exit::of(&first));
    }
    let to_file = |to: &Path| -> anyhow::Result<String> {
        let refused = || format!("cannot write {}", path.display());
        let mut out = BufWriter::new(File::create(to).with_context(refused)?);
        let said = write(&task, &mut out)?;
        out.flush().with_context(refused)?;
        Ok(said)
    };
    let said = match special {
        true => to_file(&path)?,
        false => in_its_place(&path, to_file)?,
    };
    output.text(&format!("{}: {said}\n", path.display()))?;
    Ok(Exit::of(&first))
}

/// The first reading: all that the second one and the names need, and figures of the peak and the end.
fn first(args: &Args, file: &Path) -> anyhow::Result<(Session, Steps)> {
    let moment = match args.format {
        Format::Folded | Format::Firefox => args.at.unwrap_or_default(),
        Format::Speedscope | Format::Pprof | Format::OtlpProfile => At::Peak,
        _ => At::End,
    };
    let mut steps = Steps::default();
    let session = read_with(file, args.query(moment), &mut |_, record, _| {
        steps.observe(record);
    })?;
    devices::known(&session, args.part.device)?;
    Ok((session, steps))
}

/// Writes it, and says what it is.
fn write(task: &Task<'_>, out: &mut dyn Write) -> anyhow::Result<String> {
    match task.args.format {
        Format::Folded => task.folded(out),
        Format::Speedscope => task.speedscope(out),
        Format::Pprof => task.pprof(out),
        Format::OtlpProfile => task.otlp_profile(out),
        Format::Perfetto => task.perfetto(out),
        Format::Firefox => task.firefox(out),
        Format::Csv => task.csv(out),
        Format::Prometheus => task.prometheus(out),
        #[cfg(feature = "full")]
        Format::Sqlite => task.sqlite(out),
        #[cfg(feature = "full")]
        Format::Parquet => task.parquet(out),
        #[cfg(not(feature = "full"))]
        Format::Sqlite | Format::Parquet => bail!(
            "this gpumem-analyze was built without databases: build all of it with cargo build --release -p gpumem-analyze"
        ),
        Format::TorchSnapshot => task.torch_snapshot(out),
    }
}
