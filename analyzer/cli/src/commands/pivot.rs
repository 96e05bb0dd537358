//! The stacks that `lines`, `tree` and `flamegraph` show: of which blocks, and when.

use clap::error::ErrorKind;
use clap::{Args, ValueEnum};
use gpumem_analyzer::ask::{self, Of, temporary};
use gpumem_analyzer::replay::{At, Replay};
use gpumem_analyzer::session::Session;
use gpumem_analyzer::views::{ByStack, LEAST_STEPS, ShortLived, Temporary, Within};
use gpumem_capture::Level;

use super::output::Notes;
use super::read::Opened;
use crate::selection::{Selection, time};

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
    /// Count blocks as temporary that are freed within this time (`5ms`, `250us`), or within this many allocations and
    /// frees of their level and GPU. 1, the default: freed by the next event
    #[arg(long, value_name = "TIME|N", value_parser = within)]
    pub within: Option<Within>,
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

fn within(text: &str) -> Result<Within, String> {
    let events = text.parse().ok().filter(|events| *events > 0);
    let within = events.map(Within::Events);
    within
        .or_else(|| time(text).filter(|time| time.0 > 0).map(Within::Time))
        .ok_or_else(|| "expected a time or a number of events: 5ms, 250us, 2".into())
}

impl Rows {
    /// The question. `step`: only what was allocated in this step.
    pub fn question(&self, moment: At, step: Option<u64>) -> ask::Pivot {
        ask::Pivot {
            of: match self.of {
                OfArg::Live => Of::Live,
                OfArg::Allocated => Of::Allocated,
                OfArg::Temporary => Of::Temporary(self.within()),
                OfArg::Kept => Of::Kept,
                OfArg::Growing => Of::Growing,
            },
            at: moment,
            step,
            thread: self.thread.clone(),
            wanted: self.selection.part.wanted(),
        }
    }

    /// How soon a temporary block is freed.
    pub fn within(&self) -> Within {
        self.within.unwrap_or(Within::Events(1))
    }

    /// Fails if options exclude each other.
    pub fn check(&self) -> anyhow::Result<()> {
        if self.within.is_some()
            && matches!(
                self.of,
                OfArg::Live | OfArg::Allocated | OfArg::Kept | OfArg::Growing
            )
        {
            return Err(conflict("--within goes with --of temporary"));
        }
        Ok(self.question(self.selection.at, None).check()?)
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
        let question = self.question(moment, step);
        let (session, stacks) = question.read(capture)?;
        if let Some(what) = question.lacks_older() {
            notes.bounded(&session, what);
        }
        Ok(Pivot {
            session,
            stacks: stacks.by_stack,
            when: stacks.when,
        })
    }

    /// Temporary blocks by line, and the first reading of the capture.
    pub fn temporary_lines(
        &self,
        capture: &mut Opened,
        notes: &mut Notes<'_>,
    ) -> anyhow::Result<(Session, Temporary)> {
        let (wanted, within) = (self.selection.part.wanted(), self.within());
        let lines = |of: &ShortLived<'_>, replay: &Replay| of.lines(replay);
        let (session, lines) = temporary(capture, &wanted, within, lines)?;
        notes.bounded(&session, "blocks freed");
        Ok((session, lines))
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
