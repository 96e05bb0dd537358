//! The arguments of `export`, and which options apply to which format.

use std::path::{Path, PathBuf};

use clap::ValueEnum;
use clap::error::ErrorKind;
use gpumem_analyzer::replay::{At, Query};

use crate::args::SymbolArgs;
use crate::selection::{Part, moment};

/// The formats.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// Folded stacks, for flamegraph tools
    Folded,
    /// JSON for speedscope.app: peak, live, allocated
    Speedscope,
    /// A profile for pprof and programs that read its format: peak, live, leaked, allocated
    Pprof,
    /// A trace for ui.perfetto.dev: levels over time, steps, phases, ranges, failures
    Perfetto,
    /// A profile for profiler.firefox.com: the blocks at the peak
    Firefox,
    /// One line for each event
    Csv,
    /// An SQLite database: events, stacks, frames, lines, devices and facts
    Sqlite,
    /// A Parquet table with one row for each event
    Parquet,
    /// An Arrow stream with one row for each event, for the Python package
    #[value(name = "arrow-stream", alias = "arrow", hide = true)]
    Arrow,
    /// A snapshot for PyTorch's viewer, pytorch.org/memory_viz: tensors and their segments
    TorchSnapshot,
}

impl Format {
    /// The extension of its file.
    pub fn suffix(self) -> &'static str {
        match self {
            Self::Folded => "folded",
            Self::Speedscope => "speedscope.json",
            Self::Pprof => "pb.gz",
            Self::Perfetto => "perfetto.json",
            Self::Firefox => "firefox.json",
            Self::Csv => "csv",
            Self::Sqlite => "sqlite",
            Self::Parquet => "parquet",
            Self::Arrow => "arrows",
            Self::TorchSnapshot => "snapshot.pickle",
        }
    }

    /// Whether it is text for a terminal.
    pub fn is_text(self) -> bool {
        !matches!(
            self,
            Self::Pprof | Self::Sqlite | Self::Parquet | Self::Arrow | Self::TorchSnapshot
        )
    }

    /// Whether it has stacks at a point in time, rather than events or the whole run.
    pub fn is_of_stacks(self) -> bool {
        matches!(
            self,
            Self::Folded | Self::Speedscope | Self::Pprof | Self::Firefox
        )
    }

    /// Whether it has a row for each event.
    pub fn is_of_events(self) -> bool {
        matches!(self, Self::Csv | Self::Sqlite | Self::Parquet | Self::Arrow)
    }

    /// Whether it can contain only a part of a level.
    fn has_owners(self) -> bool {
        self.is_of_stacks() || self.is_of_events()
    }
}

/// `export`.
#[derive(clap::Args, Debug)]
pub struct Args {
    /// The format to write
    #[arg(value_enum)]
    pub format: Format,
    /// The file to write; `-`: standard output. Default: the capture's name with the format's usual extension
    #[arg(short, long, value_name = "OUT")]
    pub output: Option<PathBuf>,
    /// The point in time, for formats of stacks: peak, end, oom, an event's number, a time (`1.5s`) or step=N. Default:
    /// peak for folded and firefox; end for the live bytes of speedscope and pprof
    #[arg(long, value_name = "POINT", value_parser = moment)]
    pub at: Option<At>,
    /// Only these columns of an Arrow stream, by name: `seq,bytes,file`
    #[arg(long, value_name = "NAMES", value_delimiter = ',', hide = true)]
    pub columns: Vec<String>,
    /// In CSV, put `'` before names that a spreadsheet would run as a formula
    #[arg(long)]
    pub spreadsheet: bool,
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
    /// Rejects an option that does not apply to the format.
    pub fn check(&self) -> Result<(), clap::Error> {
        let part = &self.part;
        let owners = [
            ("--file", part.in_file.is_some()),
            ("--function", part.function.is_some()),
            ("--library", part.library.is_some()),
            ("--module", part.module.is_some()),
            ("--size", part.size.is_some()),
        ];
        let wrong = [("--at", self.at.is_some())].into_iter();
        let wrong = wrong.filter(|_| !self.format.is_of_stacks());
        // A block's category is known only at its end, so only views of a point in time can filter by it.
        let by_category = part.category.is_some();
        let picks = self.format.is_of_stacks() && self.format != Format::Pprof;
        let wrong = wrong.chain([("--category", by_category && !picks)]);
        let wrong = wrong.chain(owners.into_iter().filter(|_| !self.format.has_owners()));
        let level = part.level.is_some() && self.format == Format::TorchSnapshot;
        let wrong = wrong.chain([("--level", level)]);
        let spreadsheet = self.spreadsheet && self.format != Format::Csv;
        let wrong = wrong.chain([("--spreadsheet", spreadsheet)]);
        let columns = ("--columns", !self.columns.is_empty());
        let wrong = wrong.chain(
            [columns]
                .into_iter()
                .filter(|_| self.format != Format::Arrow),
        );
        let mut wrong = wrong.filter(|(_, given)| *given);
        let Some((option, _)) = wrong.next() else {
            return Ok(());
        };
        let format = self.format.to_possible_value();
        let format = format.map_or_else(String::new, |value| value.get_name().to_owned());
        let message = format!("{option} cannot be used with export {format}");
        Err(clap::Error::raw(ErrorKind::ArgumentConflict, message))
    }

    /// Whether it is written to standard output.
    pub fn is_to_stdout(&self) -> bool {
        self.output.as_deref() == Some(Path::new("-"))
    }

    /// What the replay must keep for figures at a point in time.
    pub fn query(&self, moment: At) -> Query {
        Query {
            moment,
            sizes: self.part.size.unwrap_or_default(),
            ..Query::default()
        }
    }
}
