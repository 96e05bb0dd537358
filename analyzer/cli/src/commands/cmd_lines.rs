//! `gpumem-analyze lines`.

use std::path::PathBuf;

use clap::ValueEnum;
use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use gpumem_analyzer::account::{Phase, phase_of};
use gpumem_analyzer::answers::{self, Answer};
use gpumem_analyzer::render::{ShownLines, annotated_text, answer_table, bytes, lines_table};
use gpumem_analyzer::replay::At;
use gpumem_analyzer::views::{Annotated, Lines};

use super::by_block::{self, Blocks};
use super::exit::Exit;
use super::output::Output;
use super::pivot::{OfArg, Pivot, Rows, conflict, sentence};
use super::read::Opened;
use super::view::{Of, print};
use crate::args::Format;

/// A phase of a training.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum PhaseArg {
    /// Outside all other phases
    Forward,
    /// A forward with gradients off
    Evaluation,
    /// After the last backward and optimizer step of the run
    AfterTraining,
    /// In a DataLoader, and outside all modules before the forward
    Data,
    /// While modules create or move their parameters
    SetUp,
    /// While autograd runs
    Backward,
    /// In an optimizer's step
    Optimizer,
    /// While gradients are zeroed, and where the phase is not known
    Other,
}

impl PhaseArg {
    /// Whether it includes an allocation of this phase.
    pub fn takes(self, phase: Option<Phase>) -> bool {
        match phase {
            Some(Phase::Forward) => self == Self::Forward,
            Some(Phase::Backward) => self == Self::Backward,
            Some(Phase::Optimizer) => self == Self::Optimizer,
            Some(Phase::Evaluation) => self == Self::Evaluation,
            Some(Phase::AfterTraining) => self == Self::AfterTraining,
            Some(Phase::Data) => self == Self::Data,
            Some(Phase::SetUp) => self == Self::SetUp,
            Some(Phase::ZeroGrad) | None => self == Self::Other,
        }
    }

    /// The phase in a sentence.
    pub fn said(self) -> &'static str {
        match self {
            Self::Forward => "forward",
            Self::Evaluation => "evaluation",
            Self::AfterTraining => "the time after training",
            Self::Data => "data",
            Self::SetUp => "set-up",
            Self::Backward => "backward",
            Self::Optimizer => "optimizer",
            Self::Other => "another phase, or an unknown one",
        }
    }
}

/// What each row shows.
#[derive(Clone, Copy, Debug)]
pub enum By {
    /// A line of code.
    Line,
    /// A group of memory.
    Answer(&'static Answer),
    /// A thread.
    Thread,
    /// A size of blocks.
    Size,
    /// A scope of the program.
    Scope,
}

impl By {
    /// Reads `--by`, whose values the help lists.
    fn parser() -> impl TypedValueParser<Value = Self> {
        let value = |name: &'static str, about: &'static str| PossibleValue::new(name).help(about);
        let answers = answers::ALL.into_iter();
        let answers = answers.map(|answer| value(answer.name, answer.about));
        let all = [value("line", "Line of code")].into_iter();
        let all = all.chain(answers).chain([
            value(
                "thread",
                "Thread: its allocations and frees, and its live blocks",
            ),
            value(
                "size",
                "Size of blocks, in powers of two: allocated over the run, and live",
            ),
            value(
                "scope",
                "Scope of the program (gpumem.scope), and its marks",
            ),
        ]);
        PossibleValuesParser::new(all).map(|name| match &*name {
            "thread" => Self::Thread,
            "size" => Self::Size,
            "scope" => Self::Scope,
            name => answers::named(name).map_or(Self::Line, Self::Answer),
        })
    }
}

/// `lines`.
#[derive(clap::Args, Debug)]
pub struct Args {
    /// Which bytes the rows show.
    #[command(flatten)]
    pub rows: Rows,
    /// What each row shows
    #[arg(long, default_value = "line", value_parser = By::parser(), conflicts_with = "annotate")]
    pub by: By,
    /// Only memory allocated in this phase of a training
    #[arg(long, value_enum)]
    pub phase: Option<PhaseArg>,
    /// Only memory allocated in step N. With --at peak: when the memory of that step was largest
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub step: Option<u64>,
    /// With --by size: each size in its own row. With --by scope: also each scope, below the sums by name
    #[arg(long, alias = "exact")]
    pub all: bool,
    /// Show the source with bytes in its margin: live, allocated, freed, and the difference of the two
    #[arg(long, conflicts_with_all = ["phase", "step"])]
    pub annotate: bool,
    /// Text or JSON
    #[arg(long, value_enum, default_value_t)]
    pub format: Format,
    /// The capture
    pub file: PathBuf,
}

impl Args {
    /// The capture.
    fn capture(&self) -> PathBuf {
        self.rows.selection.part.capture(&self.file)
    }

    /// Rejects options that would have no effect.
    fn check(&self) -> anyhow::Result<()> {
        self.rows.check()?;
        let question = self.rows.question(self.rows.selection.at, self.step);
        if let By::Answer(answer) = self.by {
            answer.check(&question)?;
        }
        let (of, thread) = (self.rows.of, self.rows.thread.is_some());
        let is_part = self.phase.is_some() || self.step.is_some();
        let wrong = match self.by {
            By::Size | By::Thread if of != OfArg::Live || thread || is_part => {
                "--by size and --by thread show allocated and live blocks: omit --of, --thread, --phase and --step"
            }
            By::Size | By::Thread if self.rows.selection.part.category.is_some() => {
                "--by size and --by thread follow blocks, whose category is known only at their end: omit --category"
            }
            By::Scope if !self.is_of_all() => {
                "--by scope shows all scopes of the run: of the options that select memory it has --level and --rank"
            }
            By::Line if of == OfArg::Temporary && is_part => {
                "--of temporary by line has no phases: use --by phase, or omit --phase and --step"
            }
            _ if self.annotate && (of != OfArg::Live || thread) => {
                "--annotate shows live, allocated and freed bytes: omit --of and --thread"
            }
            _ if self.all && !matches!(self.by, By::Size | By::Scope) => {
                "--all goes with --by size and --by scope"
            }
            _ => return Ok(question.check()?),
        };
        Err(conflict(wrong))
    }

    /// Whether only a level and a rank are selected.
    fn is_of_all(&self) -> bool {
        let (rows, part) = (&self.rows, &self.rows.selection.part);
        let is_whole = part.select().is_whole() && part.device.is_none() && part.size.is_none();
        let of_run = rows.of == OfArg::Live && rows.selection.at == At::Peak;
        let is_part = self.phase.is_some() || self.step.is_some() || rows.thread.is_some();
        is_whole && of_run && !is_part
    }

    /// The phase and the step in words.
    fn part(&self) -> Option<String> {
        match (self.phase.map(PhaseArg::said), self.step) {
            (None, None) => None,
            (Some(phase), None) => Some(phase.to_owned()),
            (None, Some(step)) => Some(format!("step {step}")),
            (Some(phase), Some(step)) => Some(format!("{phase} of step {step}")),
        }
    }

    /// Which blocks, when, and the filters.
    fn when(&self, pivot: &Pivot) -> String {
        let when = match self.rows.selection.at {
            At::Peak if self.step.is_some() => "at its peak",
            _ => &pivot.when,
        };
        when.to_owned() + &self.rows.selection.part.said()
    }

    /// The title of a table of groups.
    fn title(&self, what: &str, pivot: &Pivot) -> String {
        let (level, of) = (pivot.stacks.level, self.part());
        let of = of.map(|of| format!(" of {of}")).unwrap_or_default();
        let comma = if self.rows.of == OfArg::Live { "" } else { "," };
        format!("{what} the {level} level{of}{comma} {}", self.when(pivot))
    }

    /// The result where no memory is selected.
    fn nothing(&self, pivot: &Pivot) -> String {
        let (level, of) = (pivot.stacks.level, self.part());
        match self.rows.of {
            OfArg::Live => {
                let of = of.map(|of| format!(" of {of}")).unwrap_or_default();
                format!(
                    "Nothing{of} was live at the {level} level {}.\n",
                    self.when(pivot)
                )
            }
            _ => match of {
                Some(of) => {
                    format!(
                        "No memory of {of} is selected at the {level} level, {}.\n",
                        self.when(pivot)
                    )
                }
                None => sentence(&self.rows.nothing(level, &pivot.when)),
            },
        }
    }
}

/// Runs it.
pub fn run(args: &Args, output: &mut Output<'_>) -> anyhow::Result<Exit> {
    args.check()?;
    let file = &args.capture();
    let blocks = Blocks {
        file,
        rows: &args.rows,
        each: args.all,
        format: args.format,
    };
    match args.by {
        By::Size => return by_block::sizes(blocks, output),
        By::Thread => return by_block::threads(blocks, output),
        By::Scope => return by_block::scopes(blocks, output),
        By::Line if args.rows.of == OfArg::Temporary => {
            return by_block::temporary(blocks, output);
        }
        _ if args.annotate => return annotated(args, output),
        _ => {}
    }
    let moment = args.rows.selection.at;
    let mut capture = Opened::open(file)?;
    let mut pivot = args
        .rows
        .read(&mut capture, moment, args.step, &mut output.notes)?;
    let (level, mismatches) = (pivot.stacks.level, pivot.stacks.mismatches());
    output.notes.mismatches(&mismatches, "rows", level);
    let replay = &pivot.session.replay;
    if let Some(phase) = args.phase {
        pivot
            .stacks
            .retain(|stacks| phase.takes(phase_of(replay, stacks)));
    }
    match args.by {
        By::Answer(answer) => by_answer(args, &pivot, answer, output)?,
        By::Line | By::Size | By::Thread | By::Scope => by_line(args, &pivot, output)?,
    }
    Ok(match mismatches.is_empty() {
        true => Exit::of(&pivot.session),
        false => Exit::Partial,
    })
}

/// Lines with their parts.
fn by_line(args: &Args, pivot: &Pivot, output: &mut Output<'_>) -> anyhow::Result<()> {
    let (file, replay) = (&args.capture(), &pivot.session.replay);
    let lines = Lines::of(replay, &pivot.stacks);
    let (level, when) = (lines.level, args.when(pivot));
    let title = match (args.part(), args.rows.of) {
        (Some(of), _) => format!("Lines of {of} ({level} level, {when})"),
        (None, OfArg::Live) => format!("Lines that own the {level} level {when}"),
        (None, _) => format!("Lines of the {level} level, {when}"),
    };
    let of = Of {
        file,
        session: &pivot.session,
    };
    print(output, of, args.format, &lines.rows, |source, terminal| {
        if lines.rows.is_empty() {
            return match (args.part(), args.rows.of) {
                (None, OfArg::Live) => {
                    format!("No line owns memory of the {level} level {when}.\n")
                }
                (Some(of), OfArg::Live) => {
                    format!("No line of {of} owns memory of the {level} level {when}.\n")
                }
                _ => args.nothing(pivot),
            };
        }
        let mut devices: Vec<_> = lines.rows.iter().map(|row| row.device).collect();
        devices.dedup();
        let shown = ShownLines {
            devices: devices.len() > 1,
            ..ShownLines::ALL
        };
        let table = lines_table(&lines.rows, shown, &title, &replay.names, source, terminal);
        format!("{table}Together {}.\n", bytes(lines.bytes()))
    })
}

/// A table of groups.
fn by_answer(
    args: &Args,
    pivot: &Pivot,
    answer: &'static Answer,
    output: &mut Output<'_>,
) -> anyhow::Result<()> {
    let table = answer.of(&pivot.session.replay, &pivot.stacks);
    let of = Of {
        file: &args.capture(),
        session: &pivot.session,
    };
    print(output, of, args.format, &table, |_, terminal| {
        match table.rows.is_empty() {
            true => args.nothing(pivot),
            false => answer_table(&table, &args.title(answer.title, pivot), terminal),
        }
    })
}

/// The source with bytes in its margin.
fn annotated(args: &Args, output: &mut Output<'_>) -> anyhow::Result<Exit> {
    let (file, selection) = (&args.capture(), &args.rows.selection);
    let session = Opened::open(file)?.read(selection.query())?;
    let level = selection.part.level(&session)?;
    let select = selection.part.select();
    let annotated = Annotated::at(&session.replay, level, selection.at, &select);
    let of = Of {
        file,
        session: &session,
    };
    print(output, of, args.format, &annotated, |source, terminal| {
        let (names, when) = (&session.replay.names, selection.said());
        let text = annotated_text(&annotated, &when, names, source, terminal);
        match text.is_empty() {
            true => "No line allocated memory at this level.\n".into(),
            false => text,
        }
    })?;
    Ok(Exit::of(&session))
}
