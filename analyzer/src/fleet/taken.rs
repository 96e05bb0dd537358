//! The readings of a capture.

use std::path::Path;

use gpumem_capture::{Header, Record};
use gpumem_dataset::{CaptureRows, Event, Key, Keyed, Line};

use super::book::Book;
use super::failures::FailureWatch;
use super::options::Options;
use super::{events, failures, held, ledger, rank, run, series, version};
use crate::ask::CaptureFile;
use crate::ranks::{CourseWatch, StepWatch};
use crate::replay::{At, Query, Replay};
use crate::session::{Error, Session};

/// A capture that was read for the dataset.
pub struct Taken {
    /// Its rows, without its events.
    pub rows: CaptureRows,
    file: CaptureFile,
    session: Session,
    options: Options,
}

/// A capture's key. The nonce is random and different in every capture. It distinguishes captures of one process, which
/// may write several, and those of processes on two machines with the same number and start time. It cannot be guessed,
/// so no secret is needed.
pub fn key(of: &Header) -> Key {
    Keyed::new("capture")
        .with(&of.nonce.to_string())
        .with(&of.pid.to_string())
        .with(&of.started_wall_ns.to_string())
        .key()
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
    let mut file = CaptureFile::open(path)?;
    let mut watch = Watch::new(file.header().started_wall_ns);
    let session = file.read_with(Query::keeping_peaks(), &mut |replay, record, _| {
        watch.observe(replay, &record);
    })?;
    let replay = &session.replay;
    let started = session.header.started_wall_ns;
    let capture = key(&session.header);
    let mut book = Book::new(&session, options);
    let mut held = held::HeldRows::new(capture);
    held.add(replay, "peak", At::Peak, &mut book);
    held.add(replay, "end", At::End, &mut book);
    let ledger = ledger::rows(&mut file, &session, capture, &mut book.words)?;
    let judged = failures::judge(&mut file, &session)?;
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
        file,
        session,
        options: options.clone(),
    })
}

impl Taken {
    /// Whether another machine wrote the capture, or this one before its last boot. With process id 0 the writer is
    /// unknown, and no process writes any more.
    pub fn is_of_elsewhere(&self) -> bool {
        let header = &self.session.header;
        header.pid != 0 && !header.is_of_this_boot()
    }

    /// Reads the capture again and passes its events to `sink`, in order. Returns the lines that they refer to and
    /// that [`Taken::rows`] lacks.
    ///
    /// # Errors
    /// The sink's, after which it is not called again; or if the capture cannot be read again.
    pub fn events<E: From<Error>>(
        &mut self,
        sink: &mut dyn FnMut(Event) -> Result<(), E>,
    ) -> Result<Vec<Line>, E> {
        let mut book = Book::new(&self.session, &self.options);
        let capture = self.rows.rank.capture;
        events::each(&mut self.file, &self.session, capture, &mut book, sink)?;
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
    fn new(started_wall_ns: u64) -> Self {
        Self {
            steps: StepWatch::default(),
            course: CourseWatch::new(started_wall_ns, series::STRETCHES),
            failures: FailureWatch::default(),
        }
    }

    fn observe(&mut self, replay: &Replay, record: &Record<'_>) {
        self.steps.observe(replay, record);
        self.course.observe(replay, record);
        if let Record::Event(seq, event) = record {
            self.failures.observe(replay, *seq, event);
        }
    }
}
