//! The stacks that `lines`, `tree` and `flamegraph` show: of which blocks, and when.

use clap::error::ErrorKind;
use clap::{Args, ValueEnum};
use gpumem_analyzer::account::many;
use gpumem_analyzer::replay::{At, Query};
use gpumem_analyzer::session::Session;
use gpumem_analyzer::views::{
    BlockEvents, ByStack, LEAST_STEPS, ShortLived, Temporary, ThreadStacks, WARM_UP_STEPS, Within,
    at,
};
use gpumem_capture::{Level, ThreadId};

use super::output::Notes;
use super::read::Opened;
use crate::args::ShortLivedArgs;
use crate::selection::Selection;

/// Which bytes are shown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum OfArg {
    /// Bytes that are live at the point in time
    #[default]
    Live,
    /// Bytes allocated over the whole run, or up to --at; each allocation counts
    Allocated,
    /// Bytes allocated for temporary blocks: see --within
    Temporary,
    /// Live bytes of blocks that stayed live over the ends of at least 3 steps or rounds: see leaks
    Kept,
    /// Live bytes of lines that grow from step to step, or from round to round of a loop: see leaks
    #[value(alias = "leaked")]
    Growing,
}

/// Which stacks.
#[derive(Args, Clone, Debug)]
pub struct Rows {
    /// Which figures.
    #[command(flatten)]
    pub selection: Selection,
    /// Which bytes are shown
    #[arg(long, value_enum, default_value_t)]
    pub of: OfArg,
    /// Which blocks are temporary.
    #[command(flatten)]
    pub short_lived: ShortLivedArgs,
    /// Only memory allocated by threads with this id or name (with --of live or allocated): see lines --by thread
    #[arg(long, value_name = "ID|NAME")]
    pub thread: Option<String>,
}

/// The stacks of a capture.
pub struct Pivot {
    /// The capture.
    pub session: Session,
    /// Their figures.
    pub stacks: ByStack,
    /// Which blocks, and when, such as `at the peak` or `allocated over the whole run`; without the filters.
    pub when: String,
}

impl Rows {
    /// Fails if options exclude each other.
    pub fn check(&self) -> anyhow::Result<()> {
        let is_of_run = matches!(self.of, OfArg::Live | OfArg::Allocated);
        let within = self.short_lived.within.is_some() || self.short_lived.within_ms.is_some();
        let follows_blocks = self.thread.is_some() || !is_of_run;
        let wrong = match self.of {
            _ if self.thread.is_some() && !is_of_run => {
                "--thread goes with --of live and --of allocated only"
            }
            OfArg::Temporary if self.selection.at != At::Peak => {
                "--of temporary is about the whole run: omit --at"
            }
            OfArg::Live | OfArg::Allocated | OfArg::Kept | OfArg::Growing if within => {
                "--within and --within-ms go with --of temporary"
            }
            _ if follows_blocks && self.selection.part.category.is_some() => {
                "--category goes with --of live and --of allocated only, without --thread"
            }
            _ => return Ok(()),
        };
        Err(conflict(wrong))
    }

    /// Reads the stacks at a point in time. `step`: only what was allocated in this step.
    pub fn read(
        &self,
        capture: &mut Opened,
        moment: At,
        step: Option<u64>,
        notes: &mut Notes<'_>,
    ) -> anyhow::Result<Pivot> {
        self.check()?;
        let part = &self.selection.part;
        let query = Query {
            moment,
            step,
            ..self.selection.query()
        };
        if let Some(thread) = &self.thread {
            return self.of_thread(capture, query, thread, notes);
        }
        let (session, stacks, when) = match self.of {
            OfArg::Live | OfArg::Allocated => {
                let session = capture.read(query)?;
                let (level, select) = (part.level(&session)?, &part.select());
                let stacks = match self.of {
                    OfArg::Live => ByStack::at(&session.replay, level, moment, select),
                    _ => ByStack::allocated(&session.replay, level, select),
                };
                (session, stacks, self.when(moment))
            }
            OfArg::Temporary => {
                let (session, stacks) =
                    self.temporary(capture, notes, |of, replay| of.held(replay))?;
                (session, stacks, self.when(moment))
            }
            OfArg::Kept | OfArg::Growing => {
                let moment = Some(moment).filter(|moment| *moment != At::Peak);
                let ages = (LEAST_STEPS, WARM_UP_STEPS);
                let (session, survivors, when) = capture.survivors(part, moment, ages)?;
                match self.of {
                    OfArg::Kept => {
                        let when =
                            format!("kept over at least {LEAST_STEPS} steps or rounds, {when}");
                        let stacks = survivors.kept(&session.replay);
                        (session, stacks, when)
                    }
                    _ => {
                        let stacks = survivors.growing(&session.replay);
                        (session, stacks, format!("of growing lines, {when}"))
                    }
                }
            }
        };
        Ok(Pivot {
            session,
            stacks,
            when,
        })
    }

    /// Temporary blocks by line, and the first reading of the capture.
    pub fn temporary_lines(
        &self,
        capture: &mut Opened,
        notes: &mut Notes<'_>,
    ) -> anyhow::Result<(Session, Temporary)> {
        self.temporary(capture, notes, |of, replay| of.lines(replay))
    }

    /// The capture is read twice, because the level and all names must be known first.
    fn temporary<T>(
        &self,
        capture: &mut Opened,
        notes: &mut Notes<'_>,
        result: impl FnOnce(&ShortLived<'_>, &gpumem_analyzer::replay::Replay) -> T,
    ) -> anyhow::Result<(Session, T)> {
        let part = &self.selection.part;
        let first = capture.read(At::End)?;
        notes.bounded(&first, "blocks freed");
        let (level, sizes) = (part.level(&first)?, part.size.unwrap_or_default());
        let blocks = BlockEvents::new(&first.replay, level, part.select_of_events()?, sizes);
        let mut short_lived = ShortLived::new(self.short_lived.within(), blocks);
        let again = capture.read_with(At::End, &mut |replay, record, effect| {
            short_lived.observe(replay, record, effect);
        })?;
        let result = result(&short_lived, &again.replay);
        Ok((first, result))
    }

    fn of_thread(
        &self,
        capture: &mut Opened,
        query: Query,
        thread: &str,
        notes: &mut Notes<'_>,
    ) -> anyhow::Result<Pivot> {
        let (part, moment) = (&self.selection.part, query.moment);
        let session = capture.read(query)?;
        if session.replay.sampling.is_some() {
            return Err(conflict("--thread is not possible with sampled stacks"));
        }
        let threads = threads_called(&session, thread);
        notes.bounded(&session, "allocations");
        let (level, sizes) = (part.level(&session)?, part.size.unwrap_or_default());
        let blocks = BlockEvents::new(&session.replay, level, part.select_of_events()?, sizes);
        let mut stacks = ThreadStacks::new(threads, blocks, moment);
        capture.read_with(moment, &mut |replay, record, effect| {
            stacks.observe(replay, record, effect);
        })?;
        if !stacks.has_any() {
            let text = format!(
                "--thread {thread}: the capture has no such thread. `gpumem-analyze lines --by thread {}` lists them",
                capture.path().display()
            );
            return Err(clap::Error::raw(ErrorKind::InvalidValue, text).into());
        }
        let stacks = match self.of {
            OfArg::Live => stacks.live(),
            _ => stacks.allocated(),
        };
        let when = format!("{}, of thread {thread}", self.when(moment));
        Ok(Pivot {
            session,
            stacks,
            when,
        })
    }

    /// Which blocks, and when.
    fn when(&self, moment: At) -> String {
        match (self.of, moment) {
            (OfArg::Allocated, At::Peak | At::End) => "allocated over the whole run".into(),
            (OfArg::Allocated, moment) => {
                let at = at(moment);
                let end = at.split_once(' ').map_or(&*at, |(_, end)| end);
                format!("allocated up to {end}")
            }
            (OfArg::Temporary, _) => match self.short_lived.within() {
                Within::Events(1) => "freed by the next event".into(),
                Within::Events(events) => {
                    format!("freed within {}", many(events, "event", "events"))
                }
                Within::Time(time) => format!("freed within {} ms", time.0 as f64 / 1e6),
            },
            _ => at(moment),
        }
    }

    /// The message that there are no such bytes.
    pub fn nothing(&self, level: Level, when: &str) -> String {
        let part = self.selection.part.said();
        match self.of {
            _ if !part.is_empty() => {
                format!("nothing is selected at the {level} level, {when}{part}")
            }
            OfArg::Live => format!("no memory was live at the {level} level at this point in time"),
            OfArg::Allocated => format!("no memory was allocated at the {level} level"),
            OfArg::Temporary => format!("the {level} level has no temporary blocks"),
            OfArg::Kept => {
                format!(
                    "no block of the {level} level stayed live over {LEAST_STEPS} steps or rounds"
                )
            }
            OfArg::Growing => format!(
                "no line of the {level} level grows from step to step, or from round to round"
            ),
        }
    }
}

/// A message as a line of a result.
pub fn sentence(message: &str) -> String {
    let mut letters = message.chars();
    let first = letters.next().map(|first| first.to_ascii_uppercase());
    first.into_iter().chain(letters).collect::<String>() + ".\n"
}

/// An error of options that exclude each other.
pub fn conflict(text: impl Into<String>) -> anyhow::Error {
    clap::Error::raw(ErrorKind::ArgumentConflict, text.into()).into()
}

/// The threads with this id or name. Threads without a name have an id only.
fn threads_called(session: &Session, called: &str) -> Vec<ThreadId> {
    let threads = &session.replay.names.threads;
    let number = called.parse().ok().map(ThreadId);
    let named = threads.iter().filter(|(_, name)| name.as_str() == called);
    named.map(|(id, _)| *id).chain(number).collect()
}
