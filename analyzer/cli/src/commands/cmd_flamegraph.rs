//! `gpumem-analyze flamegraph`.

use std::path::{Path, PathBuf};

use anyhow::bail;
use clap::ValueEnum;
use clap::error::ErrorKind;
use gpumem_analyzer::render::{
    ColourBy, FlameLook, Source, bytes, flamegraph, flamegraph_of_change,
};
use gpumem_analyzer::replay::At;
use gpumem_analyzer::session::Session;
use gpumem_analyzer::views::{
    BlockEvents, ByStack, Differential, Folded, Folding, FrameBy, ShortLived, ThreadStacks, Within,
    at,
};
use gpumem_capture::{Level, ThreadId};

use super::exit::Exit;
use super::output::{Notes, Output, To, beside, file_name};
use super::read::{read, read_with, survivors, symbols};
use crate::args::{ShortLivedArgs, SymbolArgs};
use crate::selection::{Selection, moment};

/// Which bytes the widths show.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum OfArg {
    /// Bytes that are live at the point in time
    #[default]
    Live,
    /// Bytes allocated over the whole run, or up to --at; each allocation counts
    Allocated,
    /// Bytes allocated for temporary blocks: see --within
    Temporary,
    /// Live bytes of lines that grow from step to step, or from round to round of a loop: see leaks
    Leaked,
}

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

/// `flamegraph`.
#[derive(clap::Args, Debug)]
pub struct Args {
    /// Which figures.
    #[command(flatten)]
    pub selection: Selection,
    /// Which bytes the widths show
    #[arg(long, value_enum, default_value_t)]
    pub of: OfArg,
    /// Which blocks are temporary.
    #[command(flatten)]
    pub short_lived: ShortLivedArgs,
    /// Only memory allocated by threads with this id or name (with --of live or allocated): see threads
    #[arg(long, value_name = "ID|NAME", conflicts_with = "colour_by")]
    pub thread: Option<String>,
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
    #[arg(long, value_enum, default_value_t, conflicts_with_all = ["diff", "from", "folded"])]
    pub colour_by: ColourByArg,
    /// Start at the newest frames: the bytes that each function holds itself, with its callers below
    #[arg(long)]
    pub inverted: bool,
    /// Draw the oldest frames at the top (with --inverted, the newest)
    #[arg(long)]
    pub icicle: bool,
    /// The file to write; `-`: standard output. Default: the capture's name with .svg
    #[arg(short, long, value_name = "OUT.svg")]
    pub output: Option<PathBuf>,
    /// Write folded stacks instead of a picture. Default: to standard output
    #[arg(long)]
    pub folded: bool,
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
}

/// Runs it.
pub fn run(args: &Args, output: &mut Output<'_>) -> anyhow::Result<Exit> {
    let file = &args.selection.part.capture(&args.file);
    if args.from.is_some() && !matches!(args.of, OfArg::Live | OfArg::Allocated) {
        bail!("--from works with --of live and --of allocated only: omit --of, or use --diff");
    }
    if args.native && args.by == FrameByArg::Module {
        bail!("--by module shows no calls: omit --native");
    }
    if args.thread.is_some() && !matches!(args.of, OfArg::Live | OfArg::Allocated) {
        let text = "--thread goes with --of live and --of allocated only";
        return Err(clap::Error::raw(ErrorKind::ArgumentConflict, text).into());
    }
    let told = told(file, args, args.selection.at, &mut output.notes)?;
    output.notes.caveats(&told.session);
    let mut exit = Exit::of(&told.session);
    let (level, folded) = (told.level, &told.folded);
    let before = match (&args.diff, args.from) {
        (Some(other), _) => {
            let other_file = &args.selection.part.capture(other);
            let before = self::told(other_file, args, args.selection.at, &mut output.notes)?;
            output.notes.caveats(&before.session);
            if Exit::of(&before.session) == Exit::Partial {
                exit = Exit::Partial;
            }
            Some((before.folded, format!("than in {}", file_name(other))))
        }
        (None, Some(from)) => Some((
            self::told(file, args, from, &mut output.notes)?.folded,
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
    let contents = if args.folded {
        let lines = change.map_or_else(|| folded.lines(), |change| change.lines());
        let lines = lines.iter().map(|line| format!("{line}\n"));
        lines.collect::<String>().into_bytes()
    } else {
        let look = FlameLook {
            title: &title,
            subtitle: &told.session.subtitle(),
            icicle: args.icicle,
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
            None => bail!("{}: {}", file.display(), nothing(args.of, level)),
        }
    };
    if to_stdout || (args.folded && args.output.is_none()) {
        output.out.write_all(&contents)?;
        return Ok(exit);
    }
    let to = To::new(args.output.as_deref(), || beside(file, "svg"));
    to.write(&contents)?;
    let (path, total) = (to.path.display(), bytes(folded.bytes()));
    output.text(&format!("{path}: {total} of the {level} level\n"))?;
    Ok(exit)
}

/// The message that there is nothing to draw.
fn nothing(of: OfArg, level: Level) -> String {
    match of {
        OfArg::Live => format!("no memory was live at the {level} level at this point in time"),
        OfArg::Allocated => format!("no memory was allocated at the {level} level"),
        OfArg::Temporary => format!("the {level} level has no temporary blocks"),
        OfArg::Leaked => {
            format!("no line of the {level} level grows from step to step, or from round to round")
        }
    }
}

/// The part of the run in which the allocations were made, as text.
fn allocated_when(moment: At) -> String {
    match moment {
        At::Peak | At::End => "allocated over the whole run".into(),
        moment => format!("allocated, {}", at(moment)),
    }
}

/// The threads with this id or name.
fn threads_called(file: &Path, session: &Session, called: &str) -> anyhow::Result<Vec<ThreadId>> {
    let threads = &session.replay.names.threads;
    let number = called.parse().ok().map(ThreadId);
    let is = |(id, name): &(&ThreadId, &String)| Some(**id) == number || name.as_str() == called;
    let found: Vec<ThreadId> = threads.iter().filter(is).map(|(id, _)| *id).collect();
    if found.is_empty() {
        let text = format!(
            "--thread {called}: the capture has no such thread. `gpumem-analyze threads {}` lists them",
            file.display()
        );
        return Err(clap::Error::raw(ErrorKind::InvalidValue, text).into());
    }
    Ok(found)
}

/// The stacks of a capture.
fn told(file: &Path, args: &Args, moment: At, notes: &mut Notes<'_>) -> anyhow::Result<Told> {
    let part = &args.selection.part;
    let mut query = args.selection.query();
    query.moment = moment;
    let select = &part.select();
    let (session, held, mut said) = match args.of {
        OfArg::Live | OfArg::Allocated if args.thread.is_some() => {
            let session = read(file, query)?;
            let thread = args.thread.as_deref().unwrap_or_default();
            let threads = threads_called(file, &session, thread)?;
            notes.bounded(&session, "allocations");
            let sizes = part.size.unwrap_or_default();
            let level = part.level(&session)?;
            let block_events =
                BlockEvents::new(&session.replay, level, part.select_of_events()?, sizes);
            let mut stacks = ThreadStacks::new(threads, block_events, moment);
            read_with(file, moment, &mut |replay, record, effect| {
                stacks.observe(replay, record, effect);
            })?;
            let (held, when) = match args.of {
                OfArg::Live => (stacks.live(), at(moment)),
                _ => (stacks.allocated(), allocated_when(moment)),
            };
            (session, held, format!("{when}, of thread {thread}"))
        }
        OfArg::Live => {
            let session = read(file, query)?;
            let held = ByStack::at(&session.replay, part.level(&session)?, moment, select);
            (session, held, at(moment))
        }
        OfArg::Allocated => {
            let session = read(file, query)?;
            let held = ByStack::allocated(&session.replay, part.level(&session)?, select);
            (session, held, allocated_when(moment))
        }
        OfArg::Temporary => {
            let session = read(file, At::End)?;
            notes.bounded(&session, "blocks freed");
            let level = part.level(&session)?;
            let sizes = part.size.unwrap_or_default();
            let select = part.select_of_events()?;
            let block_events = BlockEvents::new(&session.replay, level, select, sizes);
            let mut short_lived = ShortLived::new(args.short_lived.within(), block_events);
            let again = read_with(file, At::End, &mut |replay, record, effect| {
                short_lived.observe(replay, record, effect);
            })?;
            let held = short_lived.held(&again.replay);
            drop(short_lived);
            let said = match args.short_lived.within() {
                Within::Events(1) => "freed by the next event".into(),
                Within::Events(events) => format!("freed within {events} events"),
                Within::Time(time) => format!("freed within {} ms", time.0 as f64 / 1e6),
            };
            (session, held, said)
        }
        OfArg::Leaked => {
            let asked = Some(moment).filter(|moment| *moment != At::Peak);
            let (session, survivors, at) = survivors(file, part, asked, (3, 1))?;
            let held = survivors.growing(&session.replay);
            (session, held, format!("of growing lines, {at}"))
        }
    };
    said.push_str(&part.said());
    let by = match args.by {
        FrameByArg::Line => FrameBy::Line,
        FrameByArg::Function => FrameBy::Function,
        FrameByArg::Module => FrameBy::Module,
    };
    let (mut symbols, bar) = symbols(file, &session, &args.symbols);
    let mut source = Source::new(&session.replay.names, &session.header);
    let mut text = |file: &str, line: u32| source.whole_line(file, line).to_owned();
    let folding = Folding {
        by,
        native: args.native,
        inverted: args.inverted,
    };
    let folded = Folded::of(&session.replay, &mut symbols, &held, folding, &mut text);
    drop(bar);
    Ok(Told {
        folded,
        level: held.level,
        session,
        said,
    })
}
