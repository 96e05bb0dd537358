//! `gpumem-analyze flamegraph`.

use std::path::{Path, PathBuf};

use anyhow::bail;
use clap::ValueEnum;
use gpumem_analyzer::render::{
    ColourBy, FlameLook, Source, bytes, flamegraph, flamegraph_of_change,
};
use gpumem_analyzer::replay::At;
use gpumem_analyzer::session::Session;
use gpumem_analyzer::views::{Differential, Folded, Folding, FrameBy, at};
use gpumem_capture::Level;

use super::exit::Exit;
use super::output::{Notes, Output, To, beside, file_name};
use super::pivot::{OfArg, Rows, conflict};
use super::read::{Opened, symbols};
use crate::args::SymbolArgs;
use crate::selection::moment;

/// Which Python frames are merged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum FrameByArg {
    /// Frames at the same line
    #[default]
    Line,
    /// Frames of the same function
    Function,
    /// PyTorch modules instead of calls, with the line that owns the bytes
    Module,
}

/// What the colours show.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum ColourByArg {
    /// The kind of frame: Python, native, backward, optimizer
    #[default]
    Kind,
    /// The category of most of the frame's memory
    Category,
}

/// What is written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum FormatArg {
    /// A picture, with the oldest frames at the bottom (with --inverted, the newest)
    #[default]
    Svg,
    /// A picture, with these frames at the top
    Icicle,
    /// A line for each stack
    Folded,
}

/// `flamegraph`.
#[derive(clap::Args, Debug)]
pub struct Args {
    /// Which bytes the widths show.
    #[command(flatten)]
    pub rows: Rows,
    /// Compare with this earlier capture: frames that hold more are red, frames that hold less are blue
    #[arg(long, value_name = "BEFORE.bin")]
    pub diff: Option<PathBuf>,
    /// Compare with an earlier point in time of the same capture (with --of live or allocated)
    #[arg(long, value_name = "POINT", value_parser = moment, conflicts_with = "diff")]
    pub from: Option<At>,
    /// Which Python frames are merged
    #[arg(long, value_enum, default_value_t)]
    pub by: FrameByArg,
    /// Show all frames: also native frames below Python frames, and frames that only forward a call
    #[arg(long)]
    pub native: bool,
    /// What the colours show
    #[arg(long = "color-by", alias = "colour-by", value_enum, default_value_t, conflicts_with_all = ["diff", "from"])]
    pub colour_by: ColourByArg,
    /// Start at the newest frames: the bytes that each function holds itself, with its callers below
    #[arg(long)]
    pub inverted: bool,
    /// The file to write; `-`: standard output. Default: the capture's name with .svg; standard output for folded stacks
    #[arg(short, long, value_name = "OUT.svg")]
    pub output: Option<PathBuf>,
    /// What is written
    #[arg(long, value_enum, default_value_t)]
    pub format: FormatArg,
    /// Where names are looked for.
    #[command(flatten)]
    pub symbols: SymbolArgs,
    /// The capture
    pub file: PathBuf,
}

/// The stacks of a capture, and their description.
struct Told {
    folded: Folded,
    session: Session,
    level: Level,
    /// The text after "GPU memory of tensors".
    said: String,
    /// The same without the filters.
    when: String,
}

/// Runs it.
pub fn run(args: &Args, output: &mut Output<'_>) -> anyhow::Result<Exit> {
    let file = &args.rows.selection.part.capture(&args.file);
    if args.from.is_some() && !matches!(args.rows.of, OfArg::Live | OfArg::Allocated) {
        bail!("--from works with --of live and --of allocated only: omit --of, or use --diff");
    }
    if args.native && args.by == FrameByArg::Module {
        bail!("--by module shows no calls: omit --native");
    }
    if args.rows.thread.is_some() && args.colour_by != ColourByArg::Kind {
        return Err(conflict("--thread and --color-by exclude each other"));
    }
    let is_folded = args.format == FormatArg::Folded;
    if is_folded && args.colour_by != ColourByArg::Kind {
        return Err(conflict("--color-by is for pictures: omit --format folded"));
    }
    let mut capture = Opened::open(file)?;
    let told = told(
        &mut capture,
        args,
        args.rows.selection.at,
        &mut output.notes,
    )?;
    output.notes.caveats(&told.session);
    let mut exit = Exit::of(&told.session);
    let (level, folded) = (told.level, &told.folded);
    let before = match (&args.diff, args.from) {
        (Some(other), _) => {
            let other_file = &args.rows.selection.part.capture(other);
            let mut other_capture = Opened::open(other_file)?;
            let at = args.rows.selection.at;
            let before = self::told(&mut other_capture, args, at, &mut output.notes)?;
            output.notes.caveats(&before.session);
            if Exit::of(&before.session) == Exit::Partial {
                exit = Exit::Partial;
            }
            Some((before.folded, format!("than in {}", file_name(other))))
        }
        (None, Some(from)) => Some((
            self::told(&mut capture, args, from, &mut output.notes)?.folded,
            format!("than {}", at(from)),
        )),
        (None, None) => None,
    };
    let mut title = folded.title(level, &told.said);
    if args.inverted {
        title.push_str(", inverted");
    }
    let change = before.map(|(before, than)| {
        let (was, is) = (before.bytes(), folded.bytes());
        let (word, by) = if is < was {
            ("less", was - is)
        } else {
            ("more", is - was)
        };
        title.push_str(&format!(", {} {word} {than}", bytes(by)));
        Differential::of(&before, folded)
    });
    let to_stdout = args.output.as_deref() == Some(Path::new("-"));
    let contents = if is_folded {
        let lines = change.map_or_else(|| folded.lines(), |change| change.lines());
        let lines = lines.iter().map(|line| format!("{line}\n"));
        lines.collect::<String>().into_bytes()
    } else {
        let look = FlameLook {
            title: &title,
            subtitle: &told.session.subtitle(),
            icicle: args.format == FormatArg::Icicle,
            colour_by: match args.colour_by {
                ColourByArg::Kind => ColourBy::Kind,
                ColourByArg::Category => ColourBy::Category,
            },
        };
        let drawn = match &change {
            None => flamegraph(folded, &look),
            Some(change) => flamegraph_of_change(change, &look),
        };
        match drawn {
            Some(svg) => svg,
            None => bail!(
                "{}: {}",
                file.display(),
                args.rows.nothing(level, &told.when)
            ),
        }
    };
    if to_stdout || (is_folded && args.output.is_none()) {
        output.out.write_all(&contents)?;
        return Ok(exit);
    }
    let to = To::new(args.output.as_deref(), || beside(file, "svg"));
    to.write(&contents)?;
    let (path, total) = (to.path.display(), bytes(folded.bytes()));
    output.text(&format!("{path}: {total} of the {level} level\n"))?;
    Ok(exit)
}

/// The frames of a capture.
fn told(
    capture: &mut Opened,
    args: &Args,
    moment: At,
    notes: &mut Notes<'_>,
) -> anyhow::Result<Told> {
    let pivot = args.rows.read(capture, moment, None, notes)?;
    let by = match args.by {
        FrameByArg::Line => FrameBy::Line,
        FrameByArg::Function => FrameBy::Function,
        FrameByArg::Module => FrameBy::Module,
    };
    let session = pivot.session;
    let (mut symbols, bar) = symbols(capture.path(), &session, &args.symbols);
    let mut source = Source::new(&session.replay.names, &session.header);
    let mut text = |file: &str, line: u32| source.whole_line(file, line).to_owned();
    let folding = Folding {
        by,
        native: args.native,
        inverted: args.inverted,
    };
    let folded = Folded::of(
        &session.replay,
        &mut symbols,
        &pivot.stacks,
        folding,
        &mut text,
    );
    drop(bar);
    Ok(Told {
        folded,
        level: pivot.stacks.level,
        session,
        said: format!("{}{}", pivot.when, args.rows.selection.part.said()),
        when: pivot.when,
    })
}
