//! `gpumem-analyze lines`.

use std::path::PathBuf;

use clap::ValueEnum;
use gpumem_analyzer::account::{Phase, phase_of};
use gpumem_analyzer::render::{
    ShownLines, annotated_text, bytes, categories_table, lines_table, modules_table,
};
use gpumem_analyzer::replay::{At, Query};
use gpumem_analyzer::views::{Annotated, ByStack, Lines, Modules, at, categories};
use gpumem_capture::Level;

use super::exit::Exit;
use super::output::Output;
use super::read::read;
use super::view::{Of, print};
use crate::args::Format;
use crate::selection::Selection;

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
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum ByArg {
    /// Line of code
    #[default]
    Line,
    /// Category: parameter, gradient, activation …
    Category,
    /// PyTorch module
    Module,
}

/// `lines`.
#[derive(clap::Args, Debug)]
pub struct Args {
    /// Which figures.
    #[command(flatten)]
    pub selection: Selection,
    /// What each row shows
    #[arg(long, value_enum, default_value_t, conflicts_with = "annotate")]
    pub by: ByArg,
    /// Only memory allocated in this phase of a training
    #[arg(long, value_enum)]
    pub phase: Option<PhaseArg>,
    /// Only memory allocated in step N. With --at peak: when the memory of that step was largest
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub step: Option<u64>,
    /// Show the source with bytes in its margin: live, allocated, freed, and the difference of the two
    #[arg(long, conflicts_with_all = ["phase", "step"])]
    pub annotate: bool,
    /// Text or JSON
    #[arg(long, value_enum, default_value_t)]
    pub format: Format,
    /// The capture
    pub file: PathBuf,
}

/// Runs it.
pub fn run(args: &Args, output: &mut Output<'_>) -> anyhow::Result<Exit> {
    let query = Query {
        step: args.step,
        ..args.selection.query()
    };
    let file = &args.selection.part.capture(&args.file);
    let session = read(file, query)?;
    let level = args.selection.part.level(&session)?;
    let of = Of {
        file,
        session: &session,
    };
    if args.annotate {
        return annotated(args, of, level, output);
    }
    let mut held = args.selection.held(&session, level);
    match args.by {
        ByArg::Line => {}
        ByArg::Category => {
            if let Some(phase) = args.phase {
                let replay = &session.replay;
                held.retain(|stacks| phase.takes(phase_of(replay, stacks)));
            }
            return by_category(args, of, &held, output);
        }
        ByArg::Module => return by_module(args, of, level, &held, output),
    }
    let takes = |of| args.phase.is_none_or(|phase| phase.takes(of));
    let lines = Lines::of_phases(&session.replay, &held, takes);
    output.notes.mismatches(&lines.mismatches, "lines", level);
    print(output, of, args.format, &lines.rows, |source, terminal| {
        let names = &session.replay.names;
        let mut devices: Vec<_> = lines.rows.iter().map(|row| row.device).collect();
        devices.dedup();
        let (of, when) = said(args);
        let mut text = String::new();
        if lines.rows.is_empty() {
            let none = match of {
                None => "No line".into(),
                Some(of) => format!("No line of {of}"),
            };
            text.push_str(&format!(
                "{none} owns memory of the {level} level {when}.\n"
            ));
        } else {
            let title = match of {
                None => format!("Lines that own the {level} level {when}"),
                Some(of) => format!("Lines of {of} ({level} level, {when})"),
            };
            text.push_str(&lines_table(
                &lines.rows,
                ShownLines {
                    devices: devices.len() > 1,
                    ..ShownLines::ALL
                },
                &title,
                names,
                source,
                terminal,
            ));
            text.push_str(&format!("Together {}.\n", bytes(lines.bytes())));
        }
        text
    })?;
    Ok(if lines.mismatches.is_empty() {
        Exit::of(&session)
    } else {
        Exit::Partial
    })
}

/// What the rows stand for, and their point in time.
fn said(args: &Args) -> (Option<String>, String) {
    let of = match (args.phase.map(PhaseArg::said), args.step) {
        (None, None) => None,
        (Some(phase), None) => Some(phase.to_owned()),
        (None, Some(step)) => Some(format!("step {step}")),
        (Some(phase), Some(step)) => Some(format!("{phase} of step {step}")),
    };
    let when = match args.selection.at {
        At::Peak if args.step.is_some() => "at its peak".into(),
        moment => at(moment),
    };
    (of, when + &args.selection.part.said())
}

/// Modules instead of lines.
fn by_module(
    args: &Args,
    of: Of<'_>,
    level: Level,
    held: &ByStack,
    output: &mut Output<'_>,
) -> anyhow::Result<Exit> {
    let session = of.session;
    let takes = |of| args.phase.is_none_or(|phase| phase.takes(of));
    let modules = Modules::of(&session.replay, held, takes);
    output
        .notes
        .mismatches(&modules.mismatches, "modules", level);
    print(output, of, args.format, &modules.rows, |_, terminal| {
        let (part, when) = said(args);
        let of = part.map(|of| format!(" of {of}")).unwrap_or_default();
        if modules.rows.is_empty() {
            return format!("Nothing{of} was live at the {level} level {when}.\n");
        }
        let title = format!("Modules that own the {level} level{of} {when}");
        let table = modules_table(&modules.rows, &title, terminal);
        format!("{table}Together {}.\n", bytes(modules.bytes()))
    })?;
    Ok(match modules.mismatches.is_empty() {
        true => Exit::of(session),
        false => Exit::Partial,
    })
}

/// Categories instead of lines.
fn by_category(
    args: &Args,
    of: Of<'_>,
    held: &ByStack,
    output: &mut Output<'_>,
) -> anyhow::Result<Exit> {
    let session = of.session;
    let rows = categories(held);
    print(output, of, args.format, &rows, |_, terminal| {
        let (part, when) = said(args);
        let of = part.map(|of| format!(" of {of}")).unwrap_or_default();
        let title = format!("Categories of the {} level{of} {when}", held.level);
        categories_table(&rows, &title, terminal)
    })?;
    Ok(Exit::of(session))
}

/// The source with bytes in its margin.
fn annotated(
    args: &Args,
    of: Of<'_>,
    level: Level,
    output: &mut Output<'_>,
) -> anyhow::Result<Exit> {
    let session = of.session;
    let select = args.selection.part.select();
    let annotated = Annotated::at(&session.replay, level, args.selection.at, &select);
    print(output, of, args.format, &annotated, |source, terminal| {
        let (names, when) = (&session.replay.names, args.selection.said());
        let told = annotated_text(&annotated, &when, names, source, terminal);
        match told.is_empty() {
            true => "No line allocated memory at this level.\n".into(),
            false => told,
        }
    })?;
    Ok(Exit::of(session))
}
