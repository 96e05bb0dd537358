//! `gpumem-analyze ledger`.

use std::iter;
use std::path::PathBuf;

use clap::ValueEnum;
use gpumem_analyzer::ask::{SecondPass, has_device};
use gpumem_analyzer::render::{ledger_text, pool_text};
use gpumem_analyzer::replay::{At, Query};
use gpumem_analyzer::views::{Asked, By, LedgerAt};
use gpumem_capture::{DeviceOrdinal, Level};

use super::exit::Exit;
use super::output::Output;
use super::pivot::conflict;
use super::pool::{self, Pool};
use super::read::{Opened, not_kept};
use super::view::{Of, print};
use crate::args::Format;
use crate::selection::{Capture, moment, size};

/// The point in time of a ledger.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum When {
    /// The same as in other views.
    Moment(At),
    /// The peak of one level of each device.
    PeakOf(Level),
}

/// Reads `peak=LEVEL`, or a point in time.
fn when(text: &str) -> Result<When, String> {
    let level = match text.split_once('=') {
        Some(("peak", "tensor")) => Level::TENSOR,
        Some(("peak", "driver")) => Level::DRIVER,
        Some(("peak", "physical")) => Level::PHYSICAL,
        Some(("peak", _)) => {
            return Err("expected peak=tensor, peak=driver or peak=physical".into());
        }
        _ => return moment(text).map(When::Moment),
    };
    Ok(When::PeakOf(level))
}

/// How a ledger's rows are grouped.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum ByArg {
    /// By kind of memory
    #[default]
    Kind,
    /// By the library that the memory belongs to
    Owner,
    /// By the line of code that caused it
    Line,
}

impl From<ByArg> for By {
    fn from(by: ByArg) -> Self {
        match by {
            ByArg::Kind => Self::Kind,
            ByArg::Owner => Self::Owner,
            ByArg::Line => Self::Line,
        }
    }
}

/// `ledger`.
#[derive(clap::Args, Debug)]
pub struct Args {
    /// The point in time: peak (of each GPU), peak=tensor, peak=driver, peak=physical (of that level), end, oom, an
    /// event's number, a time (`1.5s`, `00:01.500`) or step=N (the end of step N). oom: the last out-of-memory
    /// exception, else the last failed allocation
    #[arg(long, value_name = "POINT", default_value = "peak", value_parser = when)]
    pub at: When,
    /// How the rows are grouped
    #[arg(long, value_enum, default_value_t)]
    pub by: ByArg,
    /// Only the GPU with this ordinal
    #[arg(long, value_name = "N")]
    pub device: Option<u8>,
    /// Also show the segments of PyTorch's pool and the lines that hold blocks in them (JSON always includes them)
    #[arg(long)]
    pub segments: bool,
    /// Show free memory in PyTorch's pool instead: a map of its segments, the sizes of free blocks, and both over time
    #[arg(long, conflicts_with_all = ["by", "segments"])]
    pub pool: bool,
    /// With --pool: show the free memory in blocks smaller than this request. Default: the size of the first failed
    /// allocation, else 20MiB
    #[arg(long, value_name = "SIZE", value_parser = request, requires = "pool")]
    pub request: Option<u64>,
    /// Text or JSON
    #[arg(long, value_enum, default_value_t)]
    pub format: Format,
    /// The capture.
    #[command(flatten)]
    pub capture: Capture,
    /// With --pool: more captures to show below it, of other ranks or replays of this one
    #[arg(requires = "pool")]
    pub others: Vec<PathBuf>,
    /// Rejected: a ledger covers the whole card.
    #[command(flatten)]
    pub refused: Refused,
}

/// Options of other views that a ledger does not have.
#[derive(clap::Args, Debug)]
pub struct Refused {
    /// Rejected
    #[arg(long, hide = true, value_parser = no_level)]
    pub level: Option<String>,
    /// Rejected
    #[arg(long = "file", hide = true, value_parser = no_part)]
    pub in_file: Option<String>,
    /// Rejected
    #[arg(long, hide = true, value_parser = no_part)]
    pub function: Option<String>,
    /// Rejected
    #[arg(long, hide = true, value_parser = no_part)]
    pub library: Option<String>,
    /// Rejected
    #[arg(long, hide = true, value_parser = no_part)]
    pub size: Option<String>,
}

fn no_level(_: &str) -> Result<String, String> {
    Err("a ledger includes all levels: use lines --level for one level; --at peak=LEVEL is the peak of a level".into())
}

fn no_part(_: &str) -> Result<String, String> {
    Err("a ledger covers the whole card, because its parts sum to NVML's figure: use --file, --function, --library and --size with lines"
    .into())
}

fn request(text: &str) -> Result<u64, String> {
    size(text).ok_or_else(|| "expected a size: 512MiB, 4k".into())
}

/// The pool of each capture.
fn run_pool(args: &Args, output: &mut Output<'_>) -> anyhow::Result<Exit> {
    let When::Moment(at) = args.at else {
        return Err(conflict("--pool has one peak: use --at peak"));
    };
    let files: Vec<_> = iter::once(args.capture.path())
        .chain(args.others.clone())
        .collect();
    let pool = Pool {
        at,
        request: args.request,
        device: args.device,
        format: args.format,
        files: &files,
    };
    pool::run(pool, output)
}

/// Runs it.
pub fn run(args: &Args, output: &mut Output<'_>) -> anyhow::Result<Exit> {
    if args.pool {
        return run_pool(args, output);
    }
    let moment = match args.at {
        When::Moment(moment) => moment,
        When::PeakOf(_) => At::Peak,
    };
    let query = Query {
        moment,
        peaks: args.at == When::Moment(At::Peak),
        ..Query::default()
    };
    let file = &args.capture.path();
    let mut capture = Opened::open(file)?;
    let session = capture.read(query)?;
    let at = match (args.at, session.replay.until()) {
        (When::PeakOf(level), _) => LedgerAt::PeakOf(level),
        (_, Some(seq)) => LedgerAt::At(seq),
        (When::Moment(At::Peak), None) => LedgerAt::Peak,
        (When::Moment(_), None) => LedgerAt::End,
    };
    let device = args.device.map(DeviceOrdinal);
    if let Some(device) = args.device {
        has_device(&session, device)?;
    }
    if let (LedgerAt::PeakOf(level), Some(restored)) = (at, session.replay.restored) {
        let rows = session.replay.levels.iter();
        let mut peaks = rows
            .filter(|((_, of), _)| *of == level)
            .map(|(_, row)| row.peak.0);
        if peaks.any(|seq| seq < restored.from) {
            return Err(not_kept(file, &session));
        }
    }
    let asked = Asked {
        at,
        by: args.by.into(),
        device,
    };
    let second = SecondPass::after(&session).ledgers(asked);
    let ledgers = capture.read_later(second, None)?.ledgers.concat();
    let of = Of {
        file,
        session: &session,
    };
    print(output, of, args.format, &ledgers, |source, terminal| {
        let (replay, mut text) = (&session.replay, String::new());
        for (index, ledger) in ledgers.iter().enumerate() {
            text.push_str(if index > 0 { "\n" } else { "" });
            text.push_str(&ledger_text(replay, ledger, source, terminal));
            let Some(pool) = ledger.pool.as_ref().filter(|_| args.segments) else {
                continue;
            };
            text.push('\n');
            text.push_str(&pool_text(replay, ledger.device, pool, source, terminal));
        }
        if ledgers.is_empty() {
            text.push_str("No GPU memory was allocated.\n");
        }
        text
    })?;
    Ok(Exit::of(&session))
}
