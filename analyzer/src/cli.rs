//! The command line.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};
use clap_complete::Shell;
use gpumem_analyzer::replay::{Moment, Phase};
use gpumem_analyzer::views::{By, LedgerAt};
use gpumem_capture::{Level, Seq};

const EXIT_CODES: &str = "\
Exit codes:
  0  complete: nothing is missing from the result
  1  no result: the file cannot be read as a capture
  2  the command line is wrong
  3  partial: a result was printed, and what is missing is said first";

const EXAMPLES: &str = "\
Examples:
  LD_PRELOAD=libgpumem.so python train.py    # writes report.bin
  gpumem-analyze report.bin                  # the report, and report.svg beside it
  gpumem-analyze lines --at end report.bin   # who still holds memory at the end
  gpumem-analyze summary --format json report.bin";

/// Tells where a program's GPU memory went, from the report.bin that libgpumem.so wrote.
///
/// Bytes are shown as KiB, MiB, GiB (steps of 1024); JSON carries plain integers.
#[derive(Debug, Parser)]
#[command(
    name = "gpumem-analyze",
    version,
    args_conflicts_with_subcommands = true
)]
#[command(arg_required_else_help = true, subcommand_negates_reqs = true)]
#[command(after_help = format!("{EXAMPLES}\n\n{EXIT_CODES}"))]
pub struct Cli {
    /// The capture to report on
    #[arg(required = true)]
    pub file: Option<PathBuf>,
    /// Where names are looked for.
    #[command(flatten)]
    pub symbols: SymbolArgs,
    /// One view alone, or another task.
    #[command(subcommand)]
    pub command: Option<Command>,
}

/// The subcommands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// What ran and what each GPU held: live, peak, allocations and frees by level
    #[command(after_help = "Examples:\n  gpumem-analyze summary report.bin\n  \
        gpumem-analyze summary --format json report.bin | jq '.devices[0].tensor.peak_bytes'")]
    Summary(SummaryArgs),
    /// The lines of code that own the memory at a moment
    #[command(after_help = "Examples:\n  gpumem-analyze lines report.bin\n  \
        gpumem-analyze lines --level driver --at end report.bin\n  \
        gpumem-analyze lines --phase backward --step 12 report.bin\n  \
        gpumem-analyze lines --at 21334 --format json report.bin\n\n\
        The rows of all phases sum to the level's own figure at that moment, or the step's.")]
    Lines(LinesArgs),
    /// What each GPU's memory consists of at a moment; the parts sum to what NVML saw
    #[command(after_help = "Examples:\n  gpumem-analyze ledger report.bin\n  \
        gpumem-analyze ledger --by owner --at end report.bin\n  \
        gpumem-analyze ledger --segments report.bin    # which lines pin PyTorch's pool\n  \
        gpumem-analyze ledger --at peak=physical --format json report.bin")]
    Ledger(LedgerArgs),
    /// Allocations that failed for want of memory: the cause, and who held what
    #[command(after_help = "Examples:\n  gpumem-analyze oom report.bin\n  \
        gpumem-analyze oom --failure 1 report.bin\n  \
        gpumem-analyze oom --format json report.bin | jq '.failures[].line'")]
    Oom(OomArgs),
    /// What each line of the script changed, in the manner of gpu_mem_track
    #[command(
        after_help = "Examples:\n  gpumem-analyze changes report.bin | less\n  \
        gpumem-analyze changes --level driver report.bin\n  \
        gpumem-analyze changes --format json report.bin"
    )]
    Changes(ChangesArgs),
    /// A picture of all stacks, as wide as the bytes they own
    #[command(
        after_help = "Examples:\n  gpumem-analyze flamegraph report.bin          # writes report.svg\n  \
        gpumem-analyze flamegraph --at end -o end.svg report.bin\n  \
        gpumem-analyze flamegraph --folded report.bin | sort -k2\n\n\
        The widths sum to the level's figure at that moment. The same capture gives the same bytes."
    )]
    Flamegraph(FlamegraphArgs),
    /// The calls that own memory, as a tree
    #[command(after_help = "Examples:\n  gpumem-analyze tree report.bin\n  \
        gpumem-analyze tree --native --least 5 report.bin\n  \
        gpumem-analyze tree --at end --format json report.bin")]
    Tree(TreeArgs),
    /// Names of native functions baked into a copy, for people who have none of the libraries
    #[command(
        after_help = "Examples:\n  gpumem-analyze symbolize report.bin -o for-you.bin\n  \
        gpumem-analyze symbolize report.bin -o report.bin    # in its own place\n  \
        gpumem-analyze symbolize --symbols from-the-node/ report.bin -o named.bin\n\n\
        The copy says all that the capture said, its damage included. Nothing is fetched from a network."
    )]
    Symbolize(SymbolizeArgs),
    /// Whether a capture is whole: exit 0 whole, 3 damaged, with what was lost
    #[command(after_help = "Examples:\n  gpumem-analyze check report.bin\n  \
        gpumem-analyze check --format json report.bin")]
    Check(CheckArgs),
    /// Completions for a shell, on standard output
    #[command(after_help = "Examples:\n  gpumem-analyze completions bash > \
        ~/.local/share/bash-completion/completions/gpumem-analyze")]
    Completions {
        /// The shell
        shell: Shell,
    },
    /// The manual page, on standard output
    #[command(after_help = "Examples:\n  gpumem-analyze man | man -l -")]
    Man,
}

/// Text for people or JSON for programs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// Aligned text.
    #[default]
    Text,
    /// JSON with integers.
    Json,
}

/// What is meant by a level.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum LevelArg {
    /// Inside a framework's pool: PyTorch's tensors
    Tensor,
    /// Device memory from CUDA
    Driver,
    /// Pinned host memory
    Host,
}

impl From<LevelArg> for Level {
    fn from(level: LevelArg) -> Self {
        match level {
            LevelArg::Tensor => Self::TENSOR,
            LevelArg::Driver => Self::DRIVER,
            LevelArg::Host => Self::HOST,
        }
    }
}

/// Reads `peak`, `end` or an event's number.
pub fn moment(text: &str) -> Result<Moment, String> {
    match text {
        "peak" => Ok(Moment::Peak),
        "end" => Ok(Moment::End),
        number => number
            .replace(',', "")
            .parse()
            .map(|seq| Moment::At(Seq(seq)))
            .map_err(|_| "expected peak, end or the number of an event".into()),
    }
}

/// Where names of native functions are looked for. A file counts only if its build id is the one that
/// was recorded.
#[derive(Args, Clone, Debug, Default)]
pub struct SymbolArgs {
    /// A folder of separate debug files, as /usr/lib/debug is; may be given again. Also
    /// GPUMEM_DEBUG_DIR
    #[arg(long, value_name = "DIR")]
    pub debug_dir: Vec<PathBuf>,
    /// A folder with libraries and debug files copied from the other machine, under any names; may be
    /// given again
    #[arg(long, value_name = "DIR")]
    pub symbols: Vec<PathBuf>,
    /// Take recorded paths below this folder, and not from this machine's root
    #[arg(long, value_name = "DIR")]
    pub sysroot: Option<PathBuf>,
}

/// `summary`.
#[derive(Args, Debug)]
pub struct SummaryArgs {
    /// Text or JSON
    #[arg(long, value_enum, default_value_t)]
    pub format: Format,
    /// The capture
    pub file: PathBuf,
}

/// Which figures.
#[derive(Args, Clone, Copy, Debug)]
pub struct Which {
    /// Which level; by default tensors, or the driver's where there are none
    #[arg(long, value_enum)]
    pub level: Option<LevelArg>,
    /// When: peak (each GPU's own), end, or just after an event given by its number
    #[arg(long, value_name = "peak|end|SEQ", default_value = "peak", value_parser = moment)]
    pub at: Moment,
}

/// Which part of a training.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum PhaseArg {
    /// Outside all other phases
    Forward,
    /// While autograd ran
    Backward,
    /// In an optimizer's step
    Optimizer,
    /// Where gradients were zeroed, and what is of no known phase
    Other,
}

impl PhaseArg {
    /// Whether it takes an allocation of this phase.
    pub fn takes(self, phase: Option<Phase>) -> bool {
        match phase {
            Some(Phase::Forward) => self == Self::Forward,
            Some(Phase::Backward) => self == Self::Backward,
            Some(Phase::Optimizer) => self == Self::Optimizer,
            Some(Phase::ZeroGrad) | None => self == Self::Other,
        }
    }

    /// Who allocated, in a sentence.
    pub fn said(self) -> &'static str {
        match self {
            Self::Forward => "forward",
            Self::Backward => "backward",
            Self::Optimizer => "optimizer",
            Self::Other => "zero_grad or no phase",
        }
    }
}

/// `lines`.
#[derive(Args, Debug)]
pub struct LinesArgs {
    /// Which figures.
    #[command(flatten)]
    pub which: Which,
    /// Only what was allocated in this phase of a training
    #[arg(long, value_enum)]
    pub phase: Option<PhaseArg>,
    /// Only what was allocated in this step of a training; the peak is then that of the step's memory
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub step: Option<u64>,
    /// Text or JSON
    #[arg(long, value_enum, default_value_t)]
    pub format: Format,
    /// The capture
    pub file: PathBuf,
}

/// Reads `peak`, `peak=LEVEL`, `end` or an event's number.
pub fn ledger_moment(text: &str) -> Result<LedgerAt, String> {
    let level = match text.split_once('=') {
        Some(("peak", "tensor")) => Level::TENSOR,
        Some(("peak", "driver")) => Level::DRIVER,
        Some(("peak", "physical")) => Level::PHYSICAL,
        Some(_) => return Err("expected peak=tensor, peak=driver or peak=physical".into()),
        None => {
            return Ok(match moment(text)? {
                Moment::Peak => LedgerAt::Peak,
                Moment::End => LedgerAt::End,
                Moment::At(seq) => LedgerAt::At(seq),
            });
        }
    };
    Ok(LedgerAt::PeakOf(level))
}

/// How a ledger's rows are put together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum ByArg {
    /// By what they are
    #[default]
    Kind,
    /// By the library that the memory belongs to
    Owner,
    /// By the line that led to it
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
#[derive(Args, Debug)]
pub struct LedgerArgs {
    /// When: peak (each GPU's own), peak=tensor, peak=driver, peak=physical (a level's own), end, or
    /// just after an event given by its number
    #[arg(long, value_name = "peak|end|SEQ", default_value = "peak", value_parser = ledger_moment)]
    pub at: LedgerAt,
    /// How the rows are put together
    #[arg(long, value_enum, default_value_t)]
    pub by: ByArg,
    /// Only the GPU with this ordinal
    #[arg(long, value_name = "N")]
    pub device: Option<u8>,
    /// Also the segments of PyTorch's pool and the lines that pin them (JSON always has them)
    #[arg(long)]
    pub segments: bool,
    /// Text or JSON
    #[arg(long, value_enum, default_value_t)]
    pub format: Format,
    /// The capture
    pub file: PathBuf,
}

/// `oom`.
#[derive(Args, Debug)]
pub struct OomArgs {
    /// Which failure, from 1; by default the last that is kept
    #[arg(long, value_name = "N")]
    pub failure: Option<usize>,
    /// Text or JSON
    #[arg(long, value_enum, default_value_t)]
    pub format: Format,
    /// The capture
    pub file: PathBuf,
}

/// `changes`.
#[derive(Args, Debug)]
pub struct ChangesArgs {
    /// Which level; by default tensors, or the driver's where there are none
    #[arg(long, value_enum)]
    pub level: Option<LevelArg>,
    /// Text or JSON
    #[arg(long, value_enum, default_value_t)]
    pub format: Format,
    /// The capture
    pub file: PathBuf,
}

/// `flamegraph`.
#[derive(Args, Debug)]
pub struct FlamegraphArgs {
    /// Which figures.
    #[command(flatten)]
    pub which: Which,
    /// Where to; `-` is standard output. By default beside the capture, as .svg
    #[arg(short, long, value_name = "OUT.svg")]
    pub output: Option<PathBuf>,
    /// Folded stacks instead of a picture; by default on standard output
    #[arg(long)]
    pub folded: bool,
    /// Where names are looked for.
    #[command(flatten)]
    pub symbols: SymbolArgs,
    /// The capture
    pub file: PathBuf,
}

/// `tree`.
#[derive(Args, Debug)]
pub struct TreeArgs {
    /// Which figures.
    #[command(flatten)]
    pub which: Which,
    /// Count calls with less than this many percent together (text only)
    #[arg(long, value_name = "PERCENT", default_value_t = 1, value_parser = clap::value_parser!(u64).range(0..=100))]
    pub least: u64,
    /// Also native frames where there are Python frames
    #[arg(long)]
    pub native: bool,
    /// Also the middle of long runs of frames that call but one other (text only)
    #[arg(long)]
    pub all: bool,
    /// Where names are looked for.
    #[command(flatten)]
    pub symbols: SymbolArgs,
    /// Text or JSON
    #[arg(long, value_enum, default_value_t)]
    pub format: Format,
    /// The capture
    pub file: PathBuf,
}

/// `symbolize`.
#[derive(Args, Debug)]
pub struct SymbolizeArgs {
    /// Where to. To name the capture itself writes it anew in its place, whole or not at all
    #[arg(short, long, value_name = "OUT.bin")]
    pub output: PathBuf,
    /// Look all names up again; those baked in before stay only where nothing is found
    #[arg(long)]
    pub anew: bool,
    /// Where names are looked for.
    #[command(flatten)]
    pub symbols: SymbolArgs,
    /// The capture
    pub file: PathBuf,
}

/// `check`.
#[derive(Args, Debug)]
pub struct CheckArgs {
    /// Text or JSON
    #[arg(long, value_enum, default_value_t)]
    pub format: Format,
    /// The capture
    pub file: PathBuf,
}
