//! Reads captures with a progress bar.

use std::path::Path;

use anyhow::Context as _;

use gpumem_analyzer::replay::{At, OutOfMemory, Query};
use gpumem_analyzer::session::{self, Observer, Session, Survey};
use gpumem_analyzer::symbols::{PerfMap, Places, Symbols};
use gpumem_analyzer::unanswered::Unanswered;
use gpumem_analyzer::views::{
    Asked, AskedLeaks, Cause, Ledger, ReplaysOfRun, RoundClock, Survivors, at_round, last_round,
};
use gpumem_capture::{Level, Progress, Reader};

use super::exit::explained;
use super::progress::Bar;
use crate::args::SymbolArgs;
use crate::selection::Part;

/// Reads a capture with a progress bar.
pub fn read(path: &Path, query: impl Into<Query>) -> anyhow::Result<Session> {
    read_with(path, query, &mut |_, _, _| {})
}

/// The same; passes each record to `observer`.
pub fn read_with(
    path: &Path,
    query: impl Into<Query>,
    observer: &mut Observer<'_>,
) -> anyhow::Result<Session> {
    read_watched(path, query, observer, &mut |_| {})
}

/// The same; `started` gets a handle that can stop the reading. A stopped session is unusable.
pub fn read_watched(
    path: &Path,
    query: impl Into<Query>,
    observer: &mut Observer<'_>,
    started: &mut dyn FnMut(Progress),
) -> anyhow::Result<Session> {
    let (query, mut bar) = (known(path, query.into())?, None);
    session::read(path, query, observer, &mut |progress| {
        started(progress.clone());
        bar = Some(Bar::start(progress));
    })
    .map_err(|error| explained(path, &error))
    .and_then(|session| told(path, session, query))
}

/// Surveys a capture's events with a progress bar.
pub fn survey(path: &Path) -> anyhow::Result<Survey> {
    let mut bar = None;
    session::survey(path, &mut |progress| bar = Some(Bar::start(progress)))
        .map_err(|error| explained(path, &error))
}

/// The query; the point in time of the failure is replaced by its event, which is known only after a complete reading.
fn known(path: &Path, query: Query) -> anyhow::Result<Query> {
    if query.moment != At::Failure {
        return Ok(query);
    }
    let first = read(path, At::End)?;
    match first.replay.main_failure() {
        Some((_, failure)) => Ok(Query {
            moment: At::Event(failure.seq),
            ..query
        }),
        None => anyhow::bail!(
            "{}: no allocation failed because memory ran out: use --at peak for the point with most memory",
            path.display()
        ),
    }
}

/// The first reading for a view of each block, and the requested level. It fails if the level's peak is requested and
/// is before the records of a bounded capture.
pub fn read_for_blocks(path: &Path, query: Query, part: &Part) -> anyhow::Result<(Session, Level)> {
    let first = read(path, query)?;
    let level = part.level(&first)?;
    if let (At::Peak, Some(restored)) = (query.moment, first.replay.restored) {
        let rows = first.replay.levels.iter();
        let mut of_level = rows.filter(|((_, of), _)| *of == level);
        if of_level.any(|(_, row)| row.peak.0 < restored.from) {
            return Err(not_kept(path, &first));
        }
    }
    Ok((first, level))
}

/// The session, if it can answer the query.
fn told(path: &Path, session: Session, query: Query) -> anyhow::Result<Session> {
    match Unanswered::by(&session, query) {
        Some(why) => Err(anyhow::anyhow!("{}: {why}", path.display())),
        None => Ok(session),
    }
}

/// The error that a bounded capture no longer has something.
pub fn not_kept(path: &Path, session: &Session) -> anyhow::Error {
    anyhow::anyhow!("{}: {}", path.display(), Unanswered::not_kept(session))
}

/// The ledgers of a capture that was read as `session`, with a progress bar.
pub fn ledgers(path: &Path, session: &Session, asked: Asked) -> anyhow::Result<Vec<Ledger>> {
    let mut bar = None;
    Ledger::read(path, session, asked, &mut |progress| {
        bar = Some(Bar::start(progress))
    })
    .map_err(|error| explained(path, &error))
}

/// The cause of the failure to show first, with a progress bar; `None` if no allocation failed.
pub fn cause(path: &Path, session: &Session) -> anyhow::Result<Option<Cause>> {
    match session.replay.main_failure() {
        Some(main) => cause_of(path, session, main, None).map(Some),
        None => Ok(None),
    }
}

/// The cause of a failure, with the replays of the capture, if there are any.
pub fn cause_of(
    path: &Path,
    session: &Session,
    failure: (u64, OutOfMemory),
    replays: Option<&ReplaysOfRun>,
) -> anyhow::Result<Cause> {
    let mut bar = None;
    Cause::read(path, session, failure, replays, &mut |progress| {
        bar = Some(Bar::start(progress))
    })
    .map_err(|error| explained(path, &error))
}

/// What `gpumem whatif --format json` printed into a file.
pub fn replays_of(file: &Path) -> anyhow::Result<ReplaysOfRun> {
    let text = gpumem_files::read::whole(file)
        .with_context(|| format!("cannot read {}", file.display()))?;
    ReplaysOfRun::parse(&text).map_err(|error| anyhow::anyhow!("{}: {error}", file.display()))
}

/// Looks up names for a capture that was read as `session`, in the places given by the user, the environment and the
/// capture's own folder. The bar shows long searches until it is dropped.
pub fn symbols(path: &Path, session: &Session, asked: &SymbolArgs) -> (Symbols, Option<Bar>) {
    let symbols = Symbols::new(places(asked), PerfMap::of(path, &session.header));
    let work = symbols.work();
    let bar = Bar::counting("naming", move || (work.done(), work.total()));
    (symbols, Some(bar))
}

/// The places for names that the user and the environment give.
pub fn places(asked: &SymbolArgs) -> Places {
    let mut places = Places::of_environment(|name| std::env::var_os(name));
    places.sysroot.clone_from(&asked.sysroot);
    places
        .debug_dirs
        .splice(..0, asked.debug_dir.iter().cloned());
    places.copied.clone_from(&asked.symbols);
    places
}

/// The id of the recorded process.
pub fn pid(path: &Path) -> anyhow::Result<u32> {
    let reader = Reader::open(path).map_err(|error| explained(path, &error.into()))?;
    Ok(reader.header().pid)
}

/// What is live at a point in time, by default the end of the last step or round, and how old it is; and that
/// point as text. The capture is read twice, because the last round is known only at its end.
pub fn survivors(
    file: &Path,
    part: &Part,
    at: Option<At>,
    (least_steps, warm_up_steps): (u64, u64),
) -> anyhow::Result<(Session, Survivors, String)> {
    let mut clock = RoundClock::default();
    let first = read_with(file, At::End, &mut |replay, record, _| {
        clock.observe(replay, record);
    })?;
    let rounds = clock.rounds(&first.replay.names);
    let moment = at.unwrap_or_else(|| last_round(&first.replay, rounds.as_ref()));
    let when = at_round(moment, rounds.as_ref());
    let sizes = part.size.unwrap_or_default();
    let mut survivors = Survivors::new(AskedLeaks {
        level: part.level(&first)?,
        moment,
        sizes,
        select: part.select_of_events()?,
        least_steps,
        warm_up_steps,
        rounds,
    });
    let query = Query {
        moment,
        sizes,
        ..Query::default()
    };
    let session = read_with(file, query, &mut |replay, record, effect| {
        survivors.observe(replay, record, effect);
    })?;
    Ok((session, survivors, when))
}
