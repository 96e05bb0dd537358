//! The readings of a capture.

use std::path::Path;

use gpumem_capture::{Reader, Record};
use gpumem_dataset::{CaptureRows, Event, Line};

use super::book::Book;
use super::failures::FailureWatch;
use super::options::Options;
use super::{events, failures, held, identity, ledger, rank, run, series, version};
use crate::ranks::{CourseWatch, StepWatch};
use crate::replay::{At, Query, Replay};
use crate::session::{self, Error, Session};

/// A capture that was read for the dataset.
pub struct Taken {
    /// Its rows, without its events.
    pub rows: CaptureRows,
    session: Session,
    options: Options,
}

/// The rows of a capture; `name` is the source of the capture in the row of `ranks`.
///
/// # Errors
/// Only where nothing can be read.
pub fn rows(path: &Path, name: &str, options: &Options) -> Result<CaptureRows, Error> {
    take(path, name, options).map(|taken| taken.rows)
}

/// The same, for callers that also need its events.
///
/// # Errors
/// Only where nothing can be read.
pub fn take(path: &Path, name: &str, options: &Options) -> Result<Taken, Error> {
    let mut watch = Watch::new(path)?;
    let session = session::read(
        path,
        Query::keeping_peaks(),
        &mut |replay, record, _| watch.observe(replay, &record),
        &mut |_| {},
    )?;
    let replay = &session.replay;
    let started = session.header.started_wall_ns;
    let capture = identity::key((&session.header).into());
    let mut book = Book::new(&session, options);
    let mut held = held::HeldRows::new(capture);
    held.add(replay, "peak", At::Peak, &mut book);
    held.add(replay, "end", At::End, &mut book);
    let ledger = ledger::rows(path, &session, capture, &mut book.words)?;
    let judged = failures::judge(path, &session)?;
    if let Some(judged) = &judged {
        held.add(&judged.then.replay, "failure", judged.at(), &mut book);
    }
    let failures = failures::rows(
        (capture, started),
        replay,
        judged.as_ref(),
        &watch.failures,
        &mut book,
    );
    let version = match &options.version {
        Some(version) => version.as_str().into(),
        None => version::of(&replay.names, &mut book.source, &book.words),
    };
    let mut row = rank::row(&session, capture, name, version, &mut book.words);
    held.say_mismatches(&mut row);
    let run = run::name(&session, options, &mut book.words);
    let (lines, frames) = book.finish();
    let rows = CaptureRows {
        run,
        rank: row,
        labels: rank::labels(capture, options),
        held: held.rows,
        lines,
        frames,
        ledger,
        series: series::rows(capture, watch.course, started.saturating_add(replay.last.0)),
        steps: series::steps(capture, replay, watch.steps),
        failures,
    };
    Ok(Taken {
        rows,
        session,
        options: options.clone(),
    })
}

impl Taken {
    /// Reads the capture again and passes its events to `sink`, in order. Returns the lines that they refer to and
    /// that [`Taken::rows`] lacks.
    ///
    /// # Errors
    /// The sink's, after which it is not called again; or if the capture cannot be read again.
    pub fn events<E: From<Error>>(
        &self,
        path: &Path,
        sink: &mut dyn FnMut(Event) -> Result<(), E>,
    ) -> Result<Vec<Line>, E> {
        let mut book = Book::new(&self.session, &self.options);
        let capture = self.rows.rank.capture;
        events::each(path, &self.session, capture, &mut book, sink)?;
        let known: std::collections::BTreeSet<_> = self
            .rows
            .lines
            .iter()
            .map(|line| (line.line_key, line.line))
            .collect();
        let (mut lines, _) = book.finish();
        lines.retain(|line| !known.contains(&(line.line_key, line.line)));
        Ok(lines)
    }
}

/// What the first reading follows.
struct Watch {
    steps: StepWatch,
    course: CourseWatch,
    failures: FailureWatch,
}

impl Watch {
    fn new(path: &Path) -> Result<Self, Error> {
        let reader = Reader::open(path)?;
        Ok(Self {
            steps: StepWatch::default(),
            course: CourseWatch::new(reader.header().started_wall_ns, series::STRETCHES),
            failures: FailureWatch::default(),
        })
    }

    fn observe(&mut self, replay: &Replay, record: &Record<'_>) {
        self.steps.observe(replay, record);
        self.course.observe(replay, record);
        if let Record::Event(seq, event) = record {
            self.failures.observe(replay, *seq, event);
        }
    }
}
