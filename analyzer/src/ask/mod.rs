//! The only place that opens captures. A capture is opened once and read in at most two passes: the second one for
//! what is at a point in time that only the first one knows ([`SecondPass`]). Points in time on the command line that only
//! a pass can find, such as the failure or the end of a step, may take one more. Views read no files.
#![expect(clippy::disallowed_methods, reason = "it is this place")]

mod pivot;
mod second_pass;
pub mod way;

use std::path::{Path, PathBuf};

use gpumem_capture::{
    Counters, Definition, Header, Integrity, MergeError, Merged, OpenError, ProcessKey, Progress,
    Reader, Record, Seq,
};

use crate::account::Account;
use crate::plausible::Plausible;
use crate::replay::{OutOfMemory, Query, Replay};
use crate::session::{Error, Session, Survey};
use crate::watch::{Observer, Watch};

pub use pivot::{Of, Passes, Pivot, Stacks, Wanted, Wrong, has_device, survivors, temporary};
pub use second_pass::{Later, SecondPass};

/// An open capture. All passes over it end at the same record, also if its program goes on.
#[derive(Debug)]
pub struct CaptureFile {
    path: PathBuf,
    reader: Reader,
    /// Whether the contents of the ring were merged into the file.
    merged: Result<Merged, MergeError>,
    trained_until: Option<Option<Seq>>,
    /// The recorder's counters, as they were before the first pass.
    counters: Option<Counters>,
    /// The last record of the first pass.
    last: Option<Seq>,
    first: Option<First>,
}

/// What the first pass over all records found, and what every later one repeats.
#[derive(Debug)]
struct First {
    integrity: Integrity,
    account: Account,
    main_failure: Option<(u64, OutOfMemory)>,
}

/// Opens a capture and makes one pass over it.
///
/// # Errors
/// As [`CaptureFile::open`] and [`CaptureFile::read`].
pub fn read(path: &Path, query: impl Into<Query>) -> Result<Session, Error> {
    CaptureFile::open(path)?.read(query)
}

/// Facts about a capture outside its records.
///
/// # Errors
/// If the file cannot be opened as a capture.
pub fn header(path: &Path) -> Result<Header, OpenError> {
    Ok(reader(path)?.header().clone())
}

/// Opens a capture to follow it while it is written, or to copy it.
///
/// # Errors
/// If the file cannot be opened as a capture.
pub fn reader(path: &Path) -> Result<Reader, OpenError> {
    Reader::open(path)
}

impl CaptureFile {
    /// Opens a capture. If its process has ended, the contents of its ring are first merged into the file.
    ///
    /// # Errors
    /// If it cannot be opened. A failed merge is not an error: the ring is then read in place.
    pub fn open(path: &Path) -> Result<Self, Error> {
        let (reader, merged) = Reader::open_merged(path)?;
        Ok(Self {
            merged,
            ..Self::of(path, reader)
        })
    }

    /// The same without writing: the ring is read in place.
    ///
    /// # Errors
    /// As [`CaptureFile::open`].
    pub fn open_unmerged(path: &Path) -> Result<Self, Error> {
        Ok(Self::of(path, reader(path)?))
    }

    /// Opens a capture without writing, for a second pass after `first`, at whose last record it ends.
    ///
    /// # Errors
    /// As [`CaptureFile::open`]; and if another capture has replaced it.
    pub fn open_again(path: &Path, first: &Session) -> Result<Self, Error> {
        let mut again = Self::open_unmerged(path)?;
        if again.header().nonce != first.header.nonce {
            return Err(Error::Replaced {
                path: path.to_owned(),
            });
        }
        again.last = Some(first.last);
        again.first = Some(First::of(first));
        Ok(again)
    }

    fn of(path: &Path, reader: Reader) -> Self {
        way::opened(path);
        Self {
            path: path.to_owned(),
            reader,
            merged: Ok(Merged::Nothing),
            trained_until: None,
            counters: None,
            last: None,
            first: None,
        }
    }

    /// Its path, as it was given.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Facts about the capture outside its records.
    pub fn header(&self) -> &Header {
        self.reader.header()
    }

    /// The open file, to copy it, or to read only its names.
    pub fn reader(&mut self) -> &mut Reader {
        &mut self.reader
    }

    /// What became of the events that its process left in memory, when it was opened.
    ///
    /// # Errors
    /// Why they could not be written to the capture.
    pub fn merged(&self) -> Result<Merged, &MergeError> {
        match &self.merged {
            Ok(merged) => Ok(*merged),
            Err(error) => Err(error),
        }
    }

    fn unmerged(&self) -> Option<String> {
        let error = self.merged.as_ref().err()?;
        Some(format!(
            "the events that its process left in memory were read, but could not be written to it: {error}"
        ))
    }

    /// The progress of a pass. It can also stop one; the session is then incomplete.
    pub fn progress(&self) -> Progress {
        self.reader.progress()
    }

    /// The failure to show first, and its number from 1. It is known after a pass.
    pub fn main_failure(&self) -> Option<Option<(u64, OutOfMemory)>> {
        self.first.as_ref().map(|first| first.main_failure)
    }

    /// Makes a pass over all records.
    ///
    /// # Errors
    /// Only if nothing can be read; damage is in [`Session::integrity`].
    pub fn read(&mut self, query: impl Into<Query>) -> Result<Session, Error> {
        self.read_with(query, &mut |_, _, _| {})
    }

    /// The same; passes each record to `observer` after the replay has applied it.
    ///
    /// # Errors
    /// As [`CaptureFile::read`].
    pub fn read_with(
        &mut self,
        query: impl Into<Query>,
        mut observer: &mut Observer<'_>,
    ) -> Result<Session, Error> {
        self.read_watched(query, &mut observer)
    }

    /// The same for what also follows records before the replay.
    ///
    /// # Errors
    /// As [`CaptureFile::read`].
    pub fn read_watched(
        &mut self,
        query: impl Into<Query>,
        watch: &mut dyn Watch,
    ) -> Result<Session, Error> {
        let query = query.into();
        way::passed(&self.path);
        let mut replay = Replay::new(query);
        replay.set_trained_until(self.trained_until()?);
        let counters = self.counters();
        if let (Some(of), None) = (counters.of, &self.first) {
            replay.compare_counters_at(of);
        }
        let mut budget = Budget::new(&self.path, self.reader.progress());
        let mut plausible = Plausible::default();
        let mut end = End::new(self.last);
        let integrity = self.reader.read(&mut |record| {
            let is_taken = budget.allows() && end.takes(&record);
            if is_taken && plausible.allows(&replay, &record) {
                watch.before(&replay, &record);
                let effect = replay.feed(record);
                watch.after(&replay, record, effect);
            }
        })?;
        budget.result()?;
        replay.settle_categories();
        let header = self.reader.header().clone();
        let (integrity, account) = match &self.first {
            Some(first) => (first.integrity.clone(), first.account.clone()),
            None => {
                let mut account = Account::judge(&replay, &header, &integrity, &counters);
                account.missing.extend(plausible.missing());
                account.notes.extend(self.unmerged());
                (integrity, account)
            }
        };
        let session = Session {
            replay,
            header,
            integrity,
            account,
            query,
            last: end.last,
        };
        if !self.reader.progress().is_stopped() && self.first.is_none() {
            self.first = Some(First::of(&session));
            self.last = Some(end.last);
        }
        Ok(session)
    }

    /// Makes a pass that reads only what the meaning of events depends on, in less time than all records take.
    ///
    /// # Errors
    /// As [`CaptureFile::read`].
    pub fn survey(&mut self) -> Result<Survey, Error> {
        way::passed(&self.path);
        self.counters();
        let mut replay = Replay::default();
        let mut budget = Budget::new(&self.path, self.reader.progress());
        let mut end = End::new(self.last);
        self.reader.read_sites(&mut |record| {
            if budget.allows() && end.takes(&record) {
                replay.survey(record);
            }
        })?;
        budget.result()?;
        if !self.reader.progress().is_stopped() {
            self.last = Some(end.last);
        }
        let header = self.reader.header().clone();
        Ok(Survey { replay, header })
    }

    fn counters(&mut self) -> Counters {
        let counters = self.counters.take();
        let counters = counters.unwrap_or_else(|| self.reader.counters());
        self.counters.insert(counters).clone()
    }

    /// The last event of the training. The recorder writes it at the program's end.
    fn trained_until(&mut self) -> Result<Option<Seq>, Error> {
        if let Some(known) = self.trained_until {
            return Ok(known);
        }
        let mut last = None;
        self.reader.read_names(&mut |record| {
            if let Record::Definition(_, Definition::Process { key, value }) = record
                && *key == ProcessKey::TRAINED_UNTIL
            {
                last = value.parse().ok().map(Seq);
            }
        })?;
        self.trained_until = Some(last);
        Ok(last)
    }
}

impl First {
    fn of(session: &Session) -> Self {
        Self {
            integrity: session.integrity.clone(),
            account: session.account.clone(),
            main_failure: session.replay.main_failure(),
        }
    }
}

/// Where a pass ends.
struct End {
    /// The last record that may be taken.
    most: Seq,
    /// The last one that was.
    last: Seq,
}

impl End {
    fn new(most: Option<Seq>) -> Self {
        Self {
            most: most.unwrap_or(Seq(u64::MAX)),
            last: Seq(0),
        }
    }

    fn takes(&mut self, record: &Record<'_>) -> bool {
        // Without the state of a bounded capture, the replay would take what follows for the whole run.
        let (seq, takes) = match *record {
            Record::State(seq, _) => (seq, true),
            Record::Event(seq, _) | Record::Definition(seq, _) => (seq, seq <= self.most),
        };
        if takes {
            self.last = self.last.max(seq);
        }
        takes
    }
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
