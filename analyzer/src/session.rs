//! Reading a capture from beginning to end.

use std::path::{Path, PathBuf};

use gpumem_capture::{
    Definition, Header, Integrity, MergeError, OpenError, ProcessKey, Progress, ReadError, Reader,
    Record, Seq, merge,
};

use crate::account::Account;
use crate::plausible::Plausible;
use crate::replay::{Effect, Query, Replay};
use crate::units::bytes;

/// A capture that was read to its end.
#[derive(Debug)]
pub struct Session {
    /// Figures and names.
    pub replay: Replay,
    /// Facts about the capture outside its records.
    pub header: Header,
    /// Which parts of the file are damaged.
    pub integrity: Integrity,
    /// The result of the accuracy check.
    pub account: Account,
    /// The point in time of the figures by stack.
    pub query: Query,
}

impl Session {
    /// The title of the capture: the command, or the description of the replay.
    pub fn title(&self) -> String {
        let command = self.replay.names.command().unwrap_or_default().to_owned();
        match &self.account.replayed {
            None => command,
            Some(replayed) => replayed.title(),
        }
    }

    /// The title for a picture, with a note if stacks are sampled.
    pub fn subtitle(&self) -> String {
        let title = Some(self.title()).filter(|title| !title.is_empty());
        let parts: Vec<String> = title.into_iter().chain(self.account.sampled()).collect();
        parts.join(" · ")
    }
}

/// Why a capture could not be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The file cannot be opened as a capture.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// The system refused while reading.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// The capture needs more memory than this process may use ([`gpumem_budget`]).
    #[error("{}: reading it needs more than {} of memory", path.display(), bytes(*budget))]
    Memory {
        /// The capture.
        path: PathBuf,
        /// The budget in bytes.
        budget: u64,
    },
}

impl From<Error> for std::io::Error {
    fn from(error: Error) -> Self {
        Self::other(error)
    }
}

/// Called for each record after the replay has applied it.
pub type Observer<'a> = dyn FnMut(&Replay, Record<'_>, Effect) + 'a;

/// Opens a capture. If its process has ended, the contents of its ring are first merged into the file.
///
/// # Errors
/// If nothing can be read. A failed merge is not an error: the ring is then read in place.
pub fn open(path: &Path) -> Result<(Reader, Result<(), MergeError>), OpenError> {
    let merged = merge(path).map(drop);
    Ok((Reader::open(path)?, merged))
}

/// The last event of the training. The recorder writes it at the program's end.
fn trained_until(reader: &mut Reader) -> Result<Option<Seq>, ReadError> {
    let mut found = None;
    reader.read_names(&mut |record| {
        if let Record::Definition(_, Definition::Process { key, value }) = record
            && *key == ProcessKey::TRAINED_UNTIL
        {
            found = value.parse().ok().map(Seq);
        }
    })?;
    Ok(found)
}

/// Reads a capture. `started` receives a handle for the progress.
///
/// # Errors
/// Only if nothing can be read; damage is in [`Session::integrity`].
pub fn read(
    path: &Path,
    query: impl Into<Query>,
    observer: &mut Observer<'_>,
    started: &mut dyn FnMut(Progress),
) -> Result<Session, Error> {
    let (reader, merged) = open(path)?;
    started(reader.progress());
    let mut session = of_reader(path, reader, query.into(), &mut |_, _| {}, observer)?;
    if let Err(error) = merged {
        session.account.notes.push(format!(
            "the events that its process left in memory were read, but could not be written to it: {error}"
        ));
    }
    Ok(session)
}

/// The same without writing: the ring is read in place.
///
/// # Errors
/// As [`read`].
pub fn read_only(
    path: &Path,
    query: impl Into<Query>,
    observer: &mut Observer<'_>,
) -> Result<Session, Error> {
    let reader = Reader::open(path)?;
    of_reader(path, reader, query.into(), &mut |_, _| {}, observer)
}

/// The result of a survey, for rows of all events.
#[derive(Debug)]
pub struct Survey {
    /// Names, whether there are steps and phases, and whether a module was called; no figures: see [`Replay::survey`].
    pub replay: Replay,
    /// Facts about the capture outside its records.
    pub header: Header,
}

/// Reads only what the meaning of events depends on, in less time than a replay. `started`: as for [`read`].
///
/// # Errors
/// As [`read`].
pub fn survey(path: &Path, started: &mut dyn FnMut(Progress)) -> Result<Survey, Error> {
    let (mut reader, _) = open(path)?;
    started(reader.progress());
    let mut replay = Replay::default();
    let mut budget = Budget::new(path, reader.progress());
    reader.read_sites(&mut |record| {
        if budget.allows() {
            replay.survey(record);
        }
    })?;
    budget.result()?;
    let header = reader.header().clone();
    Ok(Survey { replay, header })
}

/// Called for each record before the replay applies it.
pub type Before<'a> = dyn FnMut(&Replay, &Record<'_>) + 'a;

/// Reads a capture and calls `before` ahead of each record. Writes nothing. `started` receives a handle for the
/// progress, which can also stop the reading; the session is then incomplete.
///
/// # Errors
/// As [`read`].
pub fn read_before(
    path: &Path,
    query: impl Into<Query>,
    before: &mut Before<'_>,
    started: &mut dyn FnMut(Progress),
) -> Result<Session, Error> {
    let reader = Reader::open(path)?;
    started(reader.progress());
    of_reader(path, reader, query.into(), before, &mut |_, _, _| {})
}

/// Whether a reading stays within the memory that this process may use.
struct Budget<'a> {
    path: &'a Path,
    progress: Progress,
    records: u32,
    exceeded: Option<u64>,
}

impl<'a> Budget<'a> {
    /// Records from one check to the next.
    const RECORDS: u32 = 1024;

    fn new(path: &'a Path, progress: Progress) -> Self {
        Self {
            path,
            progress,
            records: 0,
            exceeded: None,
        }
    }

    /// Whether the next record may be applied. Reading stops if not.
    fn allows(&mut self) -> bool {
        self.records += 1;
        if self.records >= Self::RECORDS {
            self.records = 0;
            if let Err(exceeded) = gpumem_budget::check() {
                self.exceeded = Some(exceeded.budget);
                self.progress.stop();
            }
        }
        self.exceeded.is_none()
    }

    fn result(&self) -> Result<(), Error> {
        match self.exceeded {
            None => Ok(()),
            Some(budget) => Err(Error::Memory {
                path: self.path.to_owned(),
                budget,
            }),
        }
    }
}

fn of_reader(
    path: &Path,
    mut reader: Reader,
    query: Query,
    before: &mut Before<'_>,
    observer: &mut Observer<'_>,
) -> Result<Session, Error> {
    let mut replay = Replay::new(query);
    replay.set_trained_until(trained_until(&mut reader)?);
    let counters = reader.counters();
    if let Some(of) = counters.of {
        replay.compare_counters_at(of);
    }
    let mut budget = Budget::new(path, reader.progress());
    let mut plausible = Plausible::default();
    let integrity = reader.read(&mut |record| {
        if budget.allows() && plausible.allows(&replay, &record) {
            before(&replay, &record);
            let effect = replay.feed(record);
            observer(&replay, record, effect);
        }
    })?;
    budget.result()?;
    replay.settle_categories();
    let header = reader.header().clone();
    let mut account = Account::judge(&replay, &header, &integrity, &counters);
    account.missing.extend(plausible.missing());
    Ok(Session {
        replay,
        header,
        integrity,
        account,
        query,
    })
}
