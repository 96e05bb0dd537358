//! `gpumem-analyze export`.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufWriter, IsTerminal as _, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};
use clap::error::ErrorKind;
use clap::{CommandFactory as _, ValueEnum};
use gpumem_analyzer::export::{
    self, Blocks, Csv, Events, Filter, Point, Samples, Series, Steps, firefox, perfetto, pprof,
    speedscope,
};
use gpumem_analyzer::render::{at, bytes, count};
use gpumem_analyzer::replay::{Moment, Wanted, duration, many, place};
use gpumem_analyzer::session::{Observer, Session};
use gpumem_analyzer::views::{Folded, Held, Summary};
use gpumem_capture::{DeviceOrdinal, Level, Nanos, Record, Seq};

use super::{Exit, Output, file_name, in_its_place, read, read_with, say_missing, symbols};
use crate::cli::{Cli, SymbolArgs};
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
            Self::TorchSnapshot => "snapshot.pickle",
        }
    }

    /// Whether a terminal can show it.
    fn is_text(self) -> bool {
        !matches!(self, Self::TorchSnapshot | Self::Pprof)
    }

    /// Whether it is of stacks at a moment, and not of events or of the whole run.
    fn is_of_stacks(self) -> bool {
        matches!(
            self,
            Self::Folded | Self::Speedscope | Self::Pprof | Self::Firefox
        )
    }

    /// Whether parts of a level can be told apart in it.
    fn has_owners(self) -> bool {
        self.is_of_stacks() || matches!(self, Self::Csv)
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
    /// Stops where an option is given that the format has no use for.
    fn check(&self) {
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
        if let Some((option, _)) = wrong.next() {
            let format = self.format.to_possible_value();
            let format = format.map_or_else(String::new, |value| value.get_name().to_owned());
            let message = format!("{option} has no meaning for export {format}");
            Cli::command()
                .error(ErrorKind::ArgumentConflict, message)
                .exit();
        }
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
    args.check();
    let file = &args.part.capture(&args.file);
    let to_stdout = args.output.as_deref() == Some(Path::new("-"));
    if to_stdout && !args.format.is_text() && std::io::stdout().is_terminal() {
        bail!("this format is not for terminals: name a file with -o, or send it into a pipe");
    }
    let (first, steps) = first(args, file)?;
    say_missing(&first);
    if let (Some(restored), Format::Csv | Format::Perfetto | Format::TorchSnapshot) =
        (first.replay.restored, args.format)
    {
        eprintln!(
            "gpumem-analyze: a bounded capture keeps its newest records: events before {} are not written",
            restored.from.0
        );
    }
    let task = Task {
        args,
        file,
        first: &first,
        steps,
    };
    if to_stdout {
        task.write(output.out)?;
        return Ok(Exit::of(&first));
    }
    let path = args
        .output
        .clone()
        .unwrap_or_else(|| beside(file, args.format.suffix()));
    let special = path.symlink_metadata().is_ok_and(|facts| !facts.is_file());
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

/// `report.rank0.bin` → `report.rank0.csv`.
fn beside(file: &Path, suffix: &str) -> PathBuf {
    if file.extension().is_some_and(|extension| extension == "bin") {
        return file.with_extension(suffix);
    }
    let mut name = file.as_os_str().to_owned();
    name.push(".");
    name.push(suffix);
    name.into()
}

/// What is to be written of a capture that was read once.
struct Task<'a> {
    args: &'a Args,
    file: &'a Path,
    first: &'a Session,
    steps: Steps,
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

    fn folded(&self, out: &mut dyn Write) -> anyhow::Result<String> {
        let moment = self.args.at.unwrap_or_default();
        let (mut symbols, bar) = symbols(self.file, self.first, &self.args.symbols);
        let held = self.held(self.first, moment);
        let folded = Folded::of(&self.first.replay, &mut symbols, &held);
        drop(bar);
        export::folded(&folded, out)?;
        Ok(format!(
            "{} of {}",
            bytes(folded.bytes()),
            self.said(moment)
        ))
    }

    /// Peak, what `--at` says, and all allocations.
    fn moments(&self) -> anyhow::Result<[Held; 3]> {
        let select = &self.args.part.select();
        let live = match self.args.at.unwrap_or(Moment::End) {
            of @ (Moment::Peak | Moment::End) => self.held(self.first, of),
            of => self.held(&read(self.file, self.args.wanted(of))?, of),
        };
        let allocated = Held::allocated(&self.first.replay, self.level(), select);
        Ok([self.held(self.first, Moment::Peak), live, allocated])
    }

    fn samples(&self, headings: &[&Held]) -> Samples {
        let (mut symbols, _bar) = symbols(self.file, self.first, &self.args.symbols);
        Samples::of(&self.first.replay, &mut symbols, headings)
    }

    fn speedscope(&self, out: &mut dyn Write) -> anyhow::Result<String> {
        let [peak, live, allocated] = self.moments()?;
        let samples = self.samples(&[&peak, &live, &allocated]);
        let live_at = self.args.at.unwrap_or(Moment::End);
        let names = [
            format!("peak: {}", self.said(Moment::Peak)),
            format!("live: {}", self.said(live_at)),
            format!(
                "allocated: the {} level, all over the run{}",
                self.level(),
                self.args.part.said()
            ),
        ];
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let command = self.first.replay.names.command().unwrap_or_default();
        let name = format!("{} {command}", file_name(self.file));
        speedscope::speedscope(&samples, &names, name.trim_end(), out)?;
        Ok(self.three(&samples))
    }

    /// What the first three headings come to.
    fn three(&self, samples: &Samples) -> String {
        let [peak, live, allocated] = [0, 1, 2].map(|heading| bytes(samples.total(heading).bytes));
        let live_at = at(self.args.at.unwrap_or(Moment::End));
        let part = self.args.part.said();
        format!(
            "the {} level{part}: peak {peak}, live {live_at} {live}, allocated {allocated}",
            self.level()
        )
    }

    fn pprof(&self, out: &mut dyn Write) -> anyhow::Result<String> {
        let [peak, live, allocated] = self.moments()?;
        let (replay, part) = (&self.first.replay, &self.args.part);
        let sizes = part.size.unwrap_or_default();
        let leaked = self
            .steps
            .leaked(replay, self.level(), &part.select(), sizes);
        let mut helds = vec![&peak, &live, &allocated];
        let mut headings = vec!["peak", "live", "allocated"];
        match &leaked {
            Some(leaked) => {
                helds.push(leaked);
                headings.push("leaked");
            }
            None => eprintln!(
                "gpumem-analyze: this bounded capture does not tell what was allocated before the last \
                 step: leaked is left out"
            ),
        }
        let samples = self.samples(&helds);
        let live_at = at(self.args.at.unwrap_or(Moment::End));
        let about = pprof::About {
            started_unix_ns: self.first.header.started_wall_ns,
            duration_ns: duration(&self.first.header, replay).0,
            comments: vec![
                replay.names.command().unwrap_or_default().to_owned(),
                format!("GPU memory of the {} level{}", self.level(), part.said()),
                format!("live: not yet freed {live_at}"),
                "leaked: alive at the end and allocated before the last step began; without steps all \
                 that is alive at the end"
                    .into(),
                "allocated: over the whole run, freed or not".into(),
            ],
        };
        pprof::pprof(&samples, &headings, &replay.names, &about, out)?;
        Ok(self.three(&samples))
    }

    fn perfetto(&self, out: &mut dyn Write) -> anyhow::Result<String> {
        let wanted = perfetto::Wanted {
            level: self.args.part.level.map(Into::into),
            device: self.args.part.device.map(DeviceOrdinal),
        };
        let mut trace = perfetto::Perfetto::new(self.first, wanted, out);
        self.again(&mut |replay, record, _| trace.observe(replay, record))?;
        trace.finish()?;
        Ok("open it at https://ui.perfetto.dev".into())
    }

    fn torch_snapshot(&self, out: &mut dyn Write) -> anyhow::Result<String> {
        let (mut symbols, bar) = symbols(self.file, self.first, &self.args.symbols);
        let only = self.args.part.device.map(DeviceOrdinal);
        let has_tensors = self
            .first
            .replay
            .rows
            .keys()
            .any(|(_, level)| *level == Level::TENSOR);
        if !has_tensors {
            bail!(
                "{}: it has no tensors of PyTorch's, which such a snapshot is of",
                self.file.display()
            );
        }
        let written = export::torch_snapshot(self.file, self.first, only, &mut symbols, out)?;
        drop(bar);
        let others = match written.others {
            0 => String::new(),
            others => format!(
                ", {} at the driver level of others than PyTorch left out",
                many(others, "event", "events")
            ),
        };
        Ok(format!(
            "{}, {}{others}; open it at https://pytorch.org/memory_viz",
            many(written.entries, "trace entry", "trace entries"),
            many(written.segments, "segment", "segments"),
        ))
    }

    fn firefox(&self, out: &mut dyn Write) -> anyhow::Result<String> {
        let (first, level) = (self.first, self.level());
        let moment = self.args.at.unwrap_or_default();
        let held = self.held(first, moment);
        let of = |device: DeviceOrdinal| -> Option<Seq> {
            match moment {
                Moment::Peak => Some(first.replay.rows.get(&(device, level))?.peak.0),
                Moment::End => None,
                _ => first.replay.until(),
            }
        };
        let devices = held.devices.iter().map(|on| on.device);
        let moments: BTreeMap<_, _> = devices.map(|device| (device, of(device))).collect();
        let length = duration(&first.header, &first.replay);
        let stretch = Nanos(length.0 / POINTS + 1);
        let mut counters: BTreeMap<DeviceOrdinal, (Series, Vec<Point>)> = moments
            .keys()
            .map(|device| (*device, (Series::new(stretch), Vec::new())))
            .collect();
        let mut blocks = Blocks::new(level, moments);
        self.again(&mut |replay, record, effect| {
            blocks.observe(replay, record, effect);
            let Record::Event(_, event) = record else {
                return;
            };
            if let (Some((series, points)), true) =
                (counters.get_mut(&event.device), event.level == level)
            {
                let value = replay.counters(event.device, level).live;
                let time = event.time;
                points.extend(series.push(Point { time, value }));
            }
        })?;
        let counters: Vec<firefox::Counter> = counters
            .into_iter()
            .map(|(device, (mut series, mut points))| {
                points.extend(series.finish());
                let name = format!("{} {level}", place(device));
                firefox::Counter { name, points }
            })
            .collect();
        let blocks = blocks.finish(&held, self.args.part.size.unwrap_or_default());
        let number = blocks.len();
        let about = firefox::About {
            title: format!("GPU memory: {}", self.said(moment)),
            pid: first.header.pid,
            started_unix_ns: first.header.started_wall_ns,
            duration: length,
        };
        let (mut symbols, _bar) = symbols(self.file, first, &self.args.symbols);
        let together =
            firefox::firefox(&first.replay, &mut symbols, blocks, &counters, &about, out)?;
        let mut said = format!("{} of {}", bytes(held.bytes()), self.said(moment));
        said.push_str(&format!(" in {}", many(number as u64, "block", "blocks")));
        if together > 0 {
            let together = count(together as u64);
            said.push_str(&format!(", the {together} smallest of them by stack"));
        }
        Ok(said)
    }

    fn csv(&self, out: &mut dyn Write) -> anyhow::Result<String> {
        let mut csv = Csv::new(out)?;
        self.rows(&mut |row| Ok(csv.row(&row)?))
    }

    /// Gives each event's row to a sink.
    fn rows(
        &self,
        sink: &mut dyn FnMut(export::EventRow<'_>) -> anyhow::Result<()>,
    ) -> anyhow::Result<String> {
        let part = &self.args.part;
        let filter = Filter {
            level: part.level.map(Into::into),
            select: part.select(),
            sizes: part.size.unwrap_or_default(),
        };
        let mut events = Events::new(self.first, filter);
        let (mut rows, mut failed) = (0_u64, None);
        self.again(&mut |replay, record, effect| {
            let Record::Event(seq, event) = record else {
                return;
            };
            if failed.is_none()
                && let Some(row) = events.row(replay, seq, event, effect)
            {
                rows += 1;
                failed = sink(row).err();
            }
        })?;
        match failed {
            Some(error) => Err(error),
            None => Ok(format!("{}{}", many(rows, "event", "events"), part.said())),
        }
    }

    fn prometheus(&self, out: &mut dyn Write) -> anyhow::Result<String> {
        let summary = Summary::of(self.first);
        export::prometheus(&summary, out)?;
        Ok(many(summary.devices.len() as u64, "GPU", "GPUs"))
    }
}

/// How many stretches of time a counter of the Firefox Profiler has.
const POINTS: u64 = 4096;
