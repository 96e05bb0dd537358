//! The stacks that `lines`, `tree`, `flamegraph` and the assistants' tools show: of which blocks, and when.

use gpumem_capture::{Level, ThreadId};

use crate::account::many;
use crate::replay::{At, Query, Replay, Sizes};
use crate::session::Session;
use crate::views::{
    AskedLeaks, BlockEvents, ByStack, LEAST_STEPS, RoundClock, Select, ShortLived, Summary,
    Survivors, ThreadStacks, WARM_UP_STEPS, Within, at, at_round, last_round, level_or_default,
};
use crate::watch::Observer;

/// Which bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Of {
    /// That are live at the point in time.
    #[default]
    Live,
    /// Allocated over the whole run, or up to the point in time. Each allocation counts.
    Allocated,
    /// Allocated for blocks that were freed soon.
    Temporary(Within),
    /// Live bytes of blocks that stayed live over the ends of several steps or rounds.
    Kept,
    /// Live bytes of lines that grow from step to step, or from round to round.
    Growing,
}

/// A part of a capture.
#[derive(Clone, Debug, Default)]
pub struct Wanted {
    /// The level; `None`: that of tensors, or the driver's without tensors.
    pub level: Option<Level>,
    /// Which GPU, and whose bytes.
    pub select: Select,
    /// Sizes of blocks.
    pub sizes: Sizes,
}

/// Which stacks.
#[derive(Clone, Debug)]
pub struct Pivot {
    /// Which bytes.
    pub of: Of,
    /// The point in time.
    pub at: At,
    /// Only what was allocated in this step.
    pub step: Option<u64>,
    /// Only what threads with this id or name allocated.
    pub thread: Option<String>,
    /// Of what.
    pub wanted: Wanted,
}

/// The stacks, and a description of them.
#[derive(Debug)]
pub struct Stacks {
    /// Their bytes.
    pub by_stack: ByStack,
    /// Which blocks, and when, such as `at the peak` or `allocated over the whole run`; without filters.
    pub when: String,
}

/// A request that no capture can answer, or not this one, with the names of options.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Wrong {
    /// What is requested excludes itself.
    #[error("{0}")]
    Options(&'static str),
    /// The capture lacks the GPU.
    #[error("--device {0}: the capture has {1}")]
    NoDevice(u8, String),
    /// The capture lacks the thread.
    #[error("--thread {0}: the capture has no such thread")]
    NoThread(String),
}

/// What makes passes over one capture.
pub trait Passes {
    /// Why one failed.
    type Error: From<Wrong>;

    /// Makes a pass. The capture can answer the query.
    ///
    /// # Errors
    /// The capture cannot be read, or cannot answer the query.
    fn pass(&mut self, query: Query, observer: &mut Observer<'_>) -> Result<Session, Self::Error>;
}

impl Wanted {
    /// The level.
    ///
    /// # Errors
    /// The capture lacks the GPU.
    pub fn level(&self, session: &Session) -> Result<Level, Wrong> {
        if let Some(device) = self.select.device {
            has_device(session, device.0)?;
        }
        Ok(level_or_default(self.level, &session.replay))
    }

    fn query(&self, moment: At) -> Query {
        Query {
            moment,
            sizes: self.sizes,
            ..Query::default()
        }
    }
}

/// Rejects a GPU that the capture lacks.
///
/// # Errors
/// It does.
pub fn has_device(session: &Session, asked: u8) -> Result<(), Wrong> {
    let devices = Summary::of(session).devices;
    let ordinals: Vec<u8> = devices.iter().map(|of| of.ordinal).collect();
    if ordinals.contains(&asked) {
        return Ok(());
    }
    let has = match &ordinals[..] {
        [] => "no GPU".to_owned(),
        [only] => format!("only GPU {only}"),
        all => {
            let all: Vec<String> = all.iter().map(u8::to_string).collect();
            format!("GPUs {}", all.join(", "))
        }
    };
    Err(Wrong::NoDevice(asked, has))
}

impl Pivot {
    /// Whether blocks are followed, whose category is known only at their end.
    pub fn follows_blocks(&self) -> bool {
        self.thread.is_some() || !matches!(self.of, Of::Live | Of::Allocated)
    }

    /// Fails if parts of the question exclude each other.
    ///
    /// # Errors
    /// They do.
    pub fn check(&self) -> Result<(), Wrong> {
        let is_of_run = matches!(self.of, Of::Live | Of::Allocated);
        let follows_blocks = self.follows_blocks();
        let wrong = match self.of {
            _ if self.thread.is_some() && !is_of_run => {
                "--thread goes with --of live and --of allocated only"
            }
            Of::Temporary(_) if self.at != At::Peak => {
                "--of temporary is about the whole run: omit --at"
            }
            _ if follows_blocks && self.wanted.select.category.is_some() => {
                "--category goes with --of live and --of allocated only, without --thread"
            }
            _ if self.step == Some(0) => "--step begins with 1",
            _ if self.step.is_some() && (self.of != Of::Live || self.thread.is_some()) => {
                "--step goes with --of live only, without --thread"
            }
            _ => return Ok(()),
        };
        Err(Wrong::Options(wrong))
    }

    /// What a pass must keep.
    pub fn query(&self) -> Query {
        Query {
            step: self.step,
            ..self.wanted.query(self.at)
        }
    }

    /// Whether one pass for [`Self::query`] is enough: [`Self::of_session`].
    pub fn is_of_one_pass(&self) -> bool {
        matches!(self.of, Of::Live | Of::Allocated) && self.thread.is_none()
    }

    /// What a bounded capture has only the newest of, if that matters.
    pub fn lacks_older(&self) -> Option<&'static str> {
        match self.of {
            Of::Temporary(_) => Some("blocks freed"),
            _ if self.thread.is_some() => Some("allocations"),
            _ => None,
        }
    }

    /// The stacks of live or allocated bytes, after a pass for [`Self::query`].
    ///
    /// # Errors
    /// The capture lacks the GPU.
    pub fn of_session(&self, session: &Session) -> Result<Stacks, Wrong> {
        let level = self.wanted.level(session)?;
        let (replay, select) = (&session.replay, &self.wanted.select);
        let by_stack = match self.of {
            Of::Allocated => ByStack::allocated(replay, level, select),
            _ => ByStack::at(replay, level, self.at, select),
        };
        Ok(Stacks {
            by_stack,
            when: self.when(),
        })
    }

    /// Reads the stacks. Returns what was read, too.
    ///
    /// # Errors
    /// Those of [`Self::check`] and of passes, and the capture may lack the GPU or the thread.
    pub fn read<P: Passes>(&self, passes: &mut P) -> Result<(Session, Stacks), P::Error> {
        self.check()?;
        if let Some(thread) = &self.thread {
            return self.of_thread(passes, thread);
        }
        match self.of {
            Of::Live | Of::Allocated => {
                let session = passes.pass(self.query(), &mut |_, _, _| {})?;
                let stacks = self.of_session(&session)?;
                Ok((session, stacks))
            }
            Of::Temporary(within) => {
                let held = |of: &ShortLived<'_>, replay: &Replay| of.held(replay);
                let (session, by_stack) = temporary(passes, &self.wanted, within, held)?;
                let when = self.when();
                Ok((session, Stacks { by_stack, when }))
            }
            Of::Kept | Of::Growing => {
                let moment = Some(self.at).filter(|at| *at != At::Peak);
                let ages = (LEAST_STEPS, WARM_UP_STEPS);
                let (session, survivors, when) = survivors(passes, &self.wanted, moment, ages)?;
                let (by_stack, when) = match self.of {
                    Of::Kept => (
                        survivors.kept(&session.replay),
                        format!("kept over at least {LEAST_STEPS} steps or rounds, {when}"),
                    ),
                    _ => (
                        survivors.growing(&session.replay),
                        format!("of growing lines, {when}"),
                    ),
                };
                Ok((session, Stacks { by_stack, when }))
            }
        }
    }

    fn of_thread<P: Passes>(
        &self,
        passes: &mut P,
        thread: &str,
    ) -> Result<(Session, Stacks), P::Error> {
        let session = passes.pass(self.query(), &mut |_, _, _| {})?;
        if session.replay.sampling.is_some() {
            return Err(Wrong::Options("--thread is not possible with sampled stacks").into());
        }
        let level = self.wanted.level(&session)?;
        let (select, sizes) = (self.wanted.select.clone(), self.wanted.sizes);
        let blocks = BlockEvents::new(&session.replay, level, select, sizes);
        let mut stacks = ThreadStacks::new(threads_called(&session, thread), blocks, self.at);
        passes.pass(self.at.into(), &mut |replay, record, effect| {
            stacks.observe(replay, record, effect);
        })?;
        if !stacks.has_any() {
            return Err(Wrong::NoThread(thread.to_owned()).into());
        }
        let by_stack = match self.of {
            Of::Live => stacks.live(),
            _ => stacks.allocated(),
        };
        let when = format!("{}, of thread {thread}", self.when());
        Ok((session, Stacks { by_stack, when }))
    }

    /// Which blocks, and when.
    fn when(&self) -> String {
        match (self.of, self.at) {
            (Of::Allocated, At::Peak | At::End) => "allocated over the whole run".into(),
            (Of::Allocated, moment) => {
                let at = at(moment);
                let end = at.split_once(' ').map_or(&*at, |(_, end)| end);
                format!("allocated up to {end}")
            }
            (Of::Temporary(Within::Events(1)), _) => "freed by the next event".into(),
            (Of::Temporary(Within::Events(events)), _) => {
                format!("freed within {}", many(events, "event", "events"))
            }
            (Of::Temporary(Within::Time(time)), _) => {
                format!("freed within {} ms", time.0 as f64 / 1e6)
            }
            (_, moment) => at(moment),
        }
    }
}

/// What `result` makes of temporary blocks, and the first session. The capture is read twice, because the level and all
/// names must be known first.
///
/// # Errors
/// Those of passes; the capture may lack the GPU.
pub fn temporary<P: Passes, T>(
    passes: &mut P,
    wanted: &Wanted,
    within: Within,
    result: impl FnOnce(&ShortLived<'_>, &Replay) -> T,
) -> Result<(Session, T), P::Error> {
    let first = passes.pass(At::End.into(), &mut |_, _, _| {})?;
    let level = wanted.level(&first)?;
    let blocks = BlockEvents::new(&first.replay, level, wanted.select.clone(), wanted.sizes);
    let mut short_lived = ShortLived::new(within, blocks);
    let again = passes.pass(At::End.into(), &mut |replay, record, effect| {
        short_lived.observe(replay, record, effect);
    })?;
    let result = result(&short_lived, &again.replay);
    Ok((first, result))
}

/// What is live at a point in time, by default the end of the last step or round, and how old it is; and that point as
/// text. This takes a second pass, because the last round is known only at the end of the first one.
///
/// # Errors
/// Those of passes; the capture may lack the GPU.
pub fn survivors<P: Passes>(
    passes: &mut P,
    wanted: &Wanted,
    at: Option<At>,
    (least_steps, warm_up_steps): (u64, u64),
) -> Result<(Session, Survivors, String), P::Error> {
    let mut clock = RoundClock::default();
    let first = passes.pass(At::End.into(), &mut |replay, record, _| {
        clock.observe(replay, record);
    })?;
    let rounds = clock.rounds(&first.replay.names);
    let moment = at.unwrap_or_else(|| last_round(&first.replay, rounds.as_ref()));
    let when = at_round(moment, rounds.as_ref());
    let mut survivors = Survivors::new(AskedLeaks {
        level: wanted.level(&first)?,
        moment,
        sizes: wanted.sizes,
        select: wanted.select.clone(),
        least_steps,
        warm_up_steps,
        rounds,
    });
    let session = passes.pass(wanted.query(moment), &mut |replay, record, effect| {
        survivors.observe(replay, record, effect);
    })?;
    Ok((session, survivors, when))
}

/// The threads with this id or name. Threads without a name have an id only.
fn threads_called(session: &Session, called: &str) -> Vec<ThreadId> {
    let threads = &session.replay.names.threads;
    let number = called.parse().ok().map(ThreadId);
    let named = threads.iter().filter(|(_, name)| name.as_str() == called);
    named.map(|(id, _)| *id).chain(number).collect()
}
