//! `gpumem-analyze export`.

mod course;
mod events;
mod stacks;

use std::fs::File;
use std::io::{BufWriter, IsTerminal as _, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};
use clap::ValueEnum;
use clap::error::ErrorKind;
use gpumem_analyzer::export::Steps;
use gpumem_analyzer::replay::{Moment, Wanted};
use gpumem_analyzer::session::{Observer, Session};
use gpumem_analyzer::views::{Held, at};
use gpumem_capture::Level;

use super::exit::{Exit, say_missing};
use super::output::{Output, beside, file_name, in_its_place};
use super::read::{read, read_with, symbols};
use crate::args::SymbolArgs;
use crate::which::{Part, moment};

/// What can be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// Folded stacks, for flamegraph tools
    Folded,
    /// JSON for speedscope.app: peak, live, allocated
    Speedscope,
    /// A profile for pprof and what reads its format: peak, live, leaked, allocated
    Pprof,
    /// A trace for ui.perfetto.dev: levels over time, steps, phases, ranges, failures
    Perfetto,
    /// A profile for profiler.firefox.com: the blocks of the peak
    Firefox,
    /// A line for each event
    Csv,
    /// Figures for Prometheus' textfile collector
    Prometheus,
    /// A database: events, and tables of stacks, frames, lines, devices and facts
    Sqlite,
    /// A table with a row for each event
    Parquet,
    /// A snapshot for PyTorch's own viewer, pytorch.org/memory_viz: tensors and the pool they lie in
    TorchSnapshot,
}

impl Format {
    /// What its file's name ends in.
    fn suffix(self) -> &'static str {
        match self {
            Self::Folded => "folded",
            Self::Speedscope => "speedscope.json",
            Self::Pprof => "pb.gz",
            Self::Perfetto => "perfetto.json",
            Self::Firefox => "firefox.json",
            Self::Csv => "csv",
            Self::Prometheus => "prom",
            Self::Sqlite => "sqlite",
            Self::Parquet => "parquet",
            Self::TorchSnapshot => "snapshot.pickle",
        }
    }

    /// Whether a terminal can show it.
    fn is_text(self) -> bool {
        !matches!(
            self,
            Self::Pprof | Self::Sqlite | Self::Parquet | Self::TorchSnapshot
        )
    }

    /// Whether it is of stacks at a moment, and not of events or of the whole run.
    fn is_of_stacks(self) -> bool {
        matches!(
            self,
            Self::Folded | Self::Speedscope | Self::Pprof | Self::Firefox
        )
    }

    /// Whether it has a row for each event.
    fn is_of_events(self) -> bool {
        matches!(self, Self::Csv | Self::Sqlite | Self::Parquet)
    }

    /// Whether parts of a level can be told apart in it.
    fn has_owners(self) -> bool {
        self.is_of_stacks() || self.is_of_events()
    }
}

/// `export`.
#[derive(clap::Args, Debug)]
pub struct Args {
    /// What to write
    #[arg(value_enum)]
    pub format: Format,
    /// Where to; `-` is standard output. By default beside the capture, under the format's usual ending
    #[arg(short, long, value_name = "OUT")]
    pub output: Option<PathBuf>,
    /// When, for formats of stacks: peak, end, an event's number, a time (`1.5s`) or step=N. folded and
    /// firefox: peak by default; speedscope and pprof: what they call live, the end by default
    #[arg(long, value_name = "MOMENT", value_parser = moment)]
    pub at: Option<Moment>,
    /// Of what.
    #[command(flatten)]
    pub part: Part,
    /// Where names are looked for.
    #[command(flatten)]
    pub symbols: SymbolArgs,
    /// The capture
    pub file: PathBuf,
}

impl Args {
    /// Refuses an option that the format has no use for.
    fn check(&self) -> Result<(), clap::Error> {
        let part = &self.part;
        let owners = [
            ("--file", part.in_file.is_some()),
            ("--function", part.function.is_some()),
            ("--library", part.library.is_some()),
            ("--size", part.size.is_some()),
        ];
        let of_run = [
            ("--device", part.device.is_some()),
            ("--level", part.level.is_some()),
        ];
        let wrong = [("--at", self.at.is_some())].into_iter();
        let wrong = wrong.filter(|_| !self.format.is_of_stacks());
        let wrong = wrong.chain(owners.into_iter().filter(|_| !self.format.has_owners()));
        let of_run = of_run.into_iter();
        let wrong = wrong.chain(of_run.filter(|(option, _)| match self.format {
            Format::Prometheus => true,
            Format::TorchSnapshot => *option == "--level",
            _ => false,
        }));
        let mut wrong = wrong.filter(|(_, given)| *given);
        let Some((option, _)) = wrong.next() else {
            return Ok(());
        };
        let format = self.format.to_possible_value();
        let format = format.map_or_else(String::new, |value| value.get_name().to_owned());
        let message = format!("{option} has no meaning for export {format}");
        Err(clap::Error::raw(ErrorKind::ArgumentConflict, message))
    }

    fn wanted(&self, moment: Moment) -> Wanted {
        Wanted {
            moment,
            sizes: self.part.size.unwrap_or_default(),
            ..Wanted::default()
        }
    }
}

/// Runs it.
pub fn run(args: &Args, output: &mut Output<'_>) -> anyhow::Result<Exit> {
    args.check()?;
    let file = &args.part.capture(&args.file);
    let to_stdout = args.output.as_deref() == Some(Path::new("-"));
    if to_stdout && !args.format.is_text() && std::io::stdout().is_terminal() {
        bail!("this format is not for terminals: name a file with -o, or send it into a pipe");
    }
    let (first, steps) = first(args, file)?;
    say_missing(&first);
    let over_time = args.format.is_of_events()
        || matches!(args.format, Format::Perfetto | Format::TorchSnapshot);
    if let (Some(restored), true) = (first.replay.restored, over_time) {
        eprintln!(
            "gpumem-analyze: a bounded capture keeps its newest records: events before {} are not written",
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
        task.write(output.out)?;
        return Ok(Exit::of(&first));
    }
    let write = |to: &Path| -> anyhow::Result<String> {
        let refused = || format!("cannot write {}", path.display());
        let mut out = BufWriter::new(File::create(to).with_context(refused)?);
        let said = task.write(&mut out)?;
        out.flush().with_context(refused)?;
        Ok(said)
    };
    let said = match special {
        true => write(&path)?,
        false => in_its_place(&path, write)?,
    };
    output.text(&format!("{}: {said}\n", path.display()))?;
    Ok(Exit::of(&first))
}

/// The first reading: all that the second one and the names need, and figures of the peak and the end.
fn first(args: &Args, file: &Path) -> anyhow::Result<(Session, Steps)> {
    let moment = match args.format {
        Format::Folded | Format::Firefox => args.at.unwrap_or_default(),
        Format::Speedscope | Format::Pprof => Moment::Peak,
        _ => Moment::End,
    };
    let mut steps = Steps::default();
    let session = read_with(file, args.wanted(moment), &mut |_, record, _| {
        steps.observe(record);
    })?;
    Ok((session, steps))
}

/// What is to be written of a capture that was read once.
struct Task<'a> {
    args: &'a Args,
    file: &'a Path,
    first: &'a Session,
    steps: Steps,
    /// Where there is room for what is written.
    folder: PathBuf,
}

impl Task<'_> {
    /// Writes it, and says what it is.
    fn write(&self, out: &mut dyn Write) -> anyhow::Result<String> {
        match self.args.format {
            Format::Folded => self.folded(out),
            Format::Speedscope => self.speedscope(out),
            Format::Pprof => self.pprof(out),
            Format::Perfetto => self.perfetto(out),
            Format::Firefox => self.firefox(out),
            Format::Csv => self.csv(out),
            Format::Prometheus => self.prometheus(out),
            Format::Sqlite => self.sqlite(out),
            Format::Parquet => self.parquet(out),
            Format::TorchSnapshot => self.torch_snapshot(out),
        }
    }

    fn level(&self) -> Level {
        self.args.part.level(self.first)
    }

    /// `the tensor level at the peak, GPU 0`.
    fn said(&self, moment: Moment) -> String {
        format!(
            "the {} level {}{}",
            self.level(),
            at(moment),
            self.args.part.said()
        )
    }

    fn held(&self, session: &Session, moment: Moment) -> Held {
        Held::at(
            &session.replay,
            self.level(),
            moment,
            &self.args.part.select(),
        )
    }

    /// Reads the capture once more.
    fn again(&self, observer: &mut Observer<'_>) -> anyhow::Result<()> {
        read_with(self.file, Moment::End, observer).map(drop)
    }
}
