//! Reads a capture up to a past point in time, and answers requests about that point.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use gpumem_analyzer::ask::{CaptureFile, Later, SecondPass};
use gpumem_analyzer::ranks::RankRow;
use gpumem_analyzer::render::count;
use gpumem_analyzer::replay::{At, Replay};
use gpumem_analyzer::session::Session;
use gpumem_analyzer::symbols::{PerfMap, Places, Symbols};
use gpumem_analyzer::unanswered::Unanswered;
use gpumem_analyzer::views::{Asked, By, LedgerAt};
use gpumem_analyzer::watch::Before;
use gpumem_capture::{Event, Progress, Record, Seq};

use super::ask::Then;
use super::baseline::Baselines;
use super::frame::{self, Figures, State};
use super::page;
use super::request::{Given, Request, Want};
use super::steps::Steps;

/// Is called with a handle of each reading when it begins.
type Started<'a> = dyn FnMut(Progress) + 'a;

pub(crate) struct MomentReader {
    path: PathBuf,
    nonce: u64,
    /// The newest result.
    kept: Option<Kept>,
}

/// A point in time that was read.
struct Kept {
    then: Then,
    session: Session,
    figures: Figures,
    baselines: Baselines,
    /// The point in time as the session has it.
    at: At,
    symbols: Option<Symbols>,
}

impl MomentReader {
    pub(crate) fn new(path: &Path, nonce: u64) -> Self {
        Self {
            path: path.to_owned(),
            nonce,
            kept: None,
        }
    }

    /// Answers, or returns the reason why not in one line. The result of a reading that was stopped
    /// is unusable.
    pub(crate) fn answer(
        &mut self,
        request: &Request,
        started: &mut Started<'_>,
    ) -> Result<Given, String> {
        let Self { path, nonce, kept } = self;
        let mut was_stopped = None;
        let mut started = |progress: Progress| {
            was_stopped = Some(progress.clone());
            started(progress);
        };
        let mut of = match kept.take().filter(|kept| kept.then == request.then) {
            Some(of) => of,
            None => read(path, *nonce, request.then, &mut started)?,
        };
        let given = given(path, &mut of, request, &mut started);
        if !was_stopped.is_some_and(|reading| reading.is_stopped()) {
            *kept = Some(of);
        }
        given
    }
}

fn read(path: &Path, nonce: u64, then: Then, started: &mut Started<'_>) -> Result<Kept, String> {
    let (mut figures, mut steps) = (None, Steps::default());
    let mut newest: Option<(Seq, Event)> = None;
    let mut baselines = Baselines::default();
    let mut capture = CaptureFile::open_unmerged(path).map_err(|error| error.to_string())?;
    started(capture.progress());
    let mut before = Before(|replay: &Replay, record: &Record<'_>| {
        if figures.is_none() {
            baselines.observe(replay);
            // The replay has taken in the record before.
            if let Some((seq, event)) = newest.take() {
                steps.growth.observe(replay, Record::Event(seq, &event));
            }
        }
        if let Record::Event(seq, event) = record
            && figures.is_none()
            && then.is_before(*seq, event.time)
        {
            figures = Some(Figures::of(replay, &steps));
        }
        if let Record::Event(seq, event) = record {
            newest = Some((*seq, **event));
        }
        steps.ends.observe(record);
    });
    let session = capture
        .read_watched(At::from(then), &mut before)
        .map_err(|error| error.to_string())?;
    if session.header.nonce != nonce {
        return Err("the capture was replaced by another file".into());
    }
    match Unanswered::by(&session, session.query) {
        // After the last event nothing changes.
        None | Some(Unanswered::NoTime { .. }) => {}
        Some(why) => return Err(why.to_string()),
    }
    if figures.is_none() {
        baselines.observe(&session.replay);
        if let Some((seq, event)) = newest {
            steps
                .growth
                .observe(&session.replay, Record::Event(seq, &event));
        }
    }
    let figures = figures.unwrap_or_else(|| Figures::of(&session.replay, &steps));
    let at = session.replay.until().map_or(At::End, At::Event);
    Ok(Kept {
        then,
        session,
        figures,
        baselines,
        at,
        symbols: None,
    })
}

fn given(
    path: &Path,
    of: &mut Kept,
    request: &Request,
    started: &mut Started<'_>,
) -> Result<Given, String> {
    let (session, figures) = (&of.session, &of.figures);
    let replay = &session.replay;
    let table = frame::table_at(
        replay,
        request.ask,
        of.at,
        (figures.seq, figures.time),
        &of.baselines,
    );
    let level = table.level;
    let state = match session.header.is_running() {
        true => State::Running,
        false => frame::ending(&session.header, replay.last),
    };
    let row = RankRow::so_far(path, &session.header, replay);
    let frame = figures.frame(
        (replay, &session.header, Arc::new(row)),
        state,
        Vec::new(),
        (request.ask, Arc::new(table)),
    );
    let when = format!("event {}", count(figures.seq.0));
    let page = match &request.want {
        Want::Frame => None,
        Want::Stacks(level, which) => {
            let symbols = of.symbols.get_or_insert_with(|| {
                let places = Places::of_environment(|name| std::env::var_os(name));
                Symbols::new(places, PerfMap::of(path, &session.header))
            });
            let title = format!("Stacks as of {when}");
            Some(page::stacks(
                session,
                symbols,
                (*level, of.at),
                which,
                &title,
            ))
        }
        Want::Account(columns) => {
            let asked = Asked {
                at: match of.at {
                    At::Event(seq) => LedgerAt::At(seq),
                    _ => LedgerAt::End,
                },
                by: By::default(),
                device: request.ask.device,
            };
            let second = SecondPass::after(session).ledgers(asked);
            let ledgers = later(path, session, second, started)?.ledgers.concat();
            let title = format!("Account as of {when}");
            let of_level = (level, of.at, request.ask.device);
            let steps = (frame.steps, frame.pace);
            let head = (&title[..], *columns);
            Some(page::account(session, &ledgers, of_level, steps, head))
        }
        Want::Cause(seq, columns) => Some(cause(path, session, *seq, *columns, started)?),
    };
    Ok(Given {
        frame: Arc::new(frame),
        page: page.map(Arc::new),
    })
}

fn cause(
    path: &Path,
    session: &Session,
    seq: Seq,
    columns: u16,
    started: &mut Started<'_>,
) -> Result<page::Page, String> {
    let all = session.replay.failures.all();
    let Some((number, failure)) = all.iter().find(|(_, of)| of.seq == seq) else {
        return Err("it is no failure: the framework's allocator handled it".into());
    };
    let second = SecondPass::after(session).cause(Some((*number, *failure)));
    match later(path, session, second, started)?.cause {
        Some(cause) => Ok(page::cause(&session.replay, failure, &cause, columns)),
        None => Err("its cause was not read".into()),
    }
}

/// Makes a second pass if it is needed. Another reading may stop the first one's progress later, so it has a new one.
fn later(
    path: &Path,
    session: &Session,
    second: SecondPass<'_>,
    started: &mut Started<'_>,
) -> Result<Later, String> {
    if !second.is_needed() {
        return Ok(second.finish(None, None));
    }
    let capture = CaptureFile::open_again(path, session);
    capture
        .and_then(|mut capture| {
            started(capture.progress());
            second.read(&mut capture, None)
        })
        .map_err(|error| error.to_string())
}
