//! A part: captures of a run whose rows are written together.

use std::collections::{BTreeSet, HashSet};
use std::fs::File;
use std::io::{self, Write as _};
use std::sync::Arc;

use sha2::{Digest as _, Sha256};
use tempfile::NamedTempFile;

use crate::encode::{Encoder, GROUP, encode};
use crate::keys::Key;
use crate::layout::{PartName, RANKS, SEVERAL, name_of};
use crate::rows::{Event, Failure, Frame, Held, Label, LedgerEntry, Line, Rank, SeriesPoint, Step};
use crate::spool::{Capture, events_at};
use crate::table::{Table, Texts};

/// A part whose files are ready to be written.
pub struct Made {
    /// Its name.
    pub name: PartName,
    /// Its captures, sorted.
    pub captures: Vec<Key>,
    /// When the last of them ended: microseconds since 1970.
    pub newest: i64,
    /// The files of its tables, `ranks` last.
    pub(crate) files: Vec<(&'static str, Contents)>,
}

pub(crate) enum Contents {
    Memory(Vec<u8>),
    File(NamedTempFile),
}

impl Contents {
    pub fn bytes(&self) -> io::Result<u64> {
        match self {
            Self::Memory(bytes) => Ok(bytes.len() as u64),
            Self::File(file) => Ok(file.as_file().metadata()?.len()),
        }
    }
}

/// Captures of a run whose part is not yet full.
#[derive(Default)]
pub struct Gathered {
    run: String,
    captures: Vec<Key>,
    hosts: BTreeSet<Option<Arc<str>>>,
    newest: i64,
    ranks: Vec<Rank>,
    labels: Vec<Label>,
    held: Vec<Held>,
    lines: HashSet<Line>,
    frames: HashSet<Frame>,
    ledger: Vec<LedgerEntry>,
    series: Vec<SeriesPoint>,
    steps: Vec<Step>,
    failures: Vec<Failure>,
    spooled: Option<File>,
    events: Vec<(Key, (u64, u64))>,
    event_rows: u64,
    texts: Texts,
}

impl Gathered {
    /// No captures of a run so far.
    pub fn new(run: &str) -> Self {
        let run = name_of(run);
        let newest = i64::MIN;
        Self {
            run,
            newest,
            ..Self::default()
        }
    }

    /// The number of captures.
    pub fn captures(&self) -> usize {
        self.captures.len()
    }

    /// The number of rows.
    pub fn rows(&self) -> u64 {
        let tables = [
            self.ranks.len(),
            self.labels.len(),
            self.held.len(),
            self.lines.len(),
            self.frames.len(),
            self.ledger.len(),
            self.series.len(),
            self.steps.len(),
            self.failures.len(),
        ];
        tables.iter().sum::<usize>() as u64 + self.event_rows
    }

    /// Adds a capture.
    ///
    /// # Errors
    /// Those of the system, when the events are written to a temporary file.
    pub fn add(&mut self, capture: Capture) -> io::Result<()> {
        let mut rows = capture.rows;
        let key = rows.rank.capture;
        if let Some(spool) = capture.events {
            self.event_rows += spool.events();
            let file = match &mut self.spooled {
                Some(file) => file,
                none => none.insert(tempfile::tempfile()?),
            };
            self.events.push((key, spool.append(file)?));
        }
        self.captures.push(key);
        self.newest = self.newest.max(rows.rank.ended);
        let texts = &mut self.texts;
        rows.rank.share(texts);
        self.hosts.insert(rows.rank.host.clone());
        self.ranks.push(rows.rank);
        all(&mut self.labels, rows.labels, texts);
        all(&mut self.held, rows.held, texts);
        all(&mut self.lines, rows.lines, texts);
        all(&mut self.frames, rows.frames, texts);
        all(&mut self.ledger, rows.ledger, texts);
        all(&mut self.series, rows.series, texts);
        all(&mut self.steps, rows.steps, texts);
        all(&mut self.failures, rows.failures, texts);
        Ok(())
    }

    /// The part's files. Its name is a hash of them and of the run.
    ///
    /// # Errors
    /// Those of the encoder and of the system.
    pub fn make(mut self) -> io::Result<Made> {
        self.captures.sort();
        let (mut lines, mut frames) = (Vec::from_iter(self.lines), Vec::from_iter(self.frames));
        let mut tables = vec![
            table(&mut self.labels)?,
            table(&mut self.held)?,
            table(&mut lines)?,
            table(&mut frames)?,
            table(&mut self.ledger)?,
            table(&mut self.series)?,
            table(&mut self.steps)?,
            table(&mut self.failures)?,
        ];
        if let Some(spooled) = &self.spooled {
            self.events.sort();
            tables.push(events(spooled, &self.events)?);
        }
        tables.push(table(&mut self.ranks)?);
        let tables: Vec<_> = tables.into_iter().flatten().collect();
        let mut hosts = self.hosts.into_iter();
        let node = match (hosts.next().flatten(), hosts.next()) {
            (Some(host), None) => name_of(&host),
            _ => SEVERAL.into(),
        };
        let part = hash(&self.run, &tables)?;
        let run = self.run;
        Ok(Made {
            name: PartName { run, node, part },
            captures: self.captures,
            newest: self.newest,
            files: tables,
        })
    }
}

fn all<R: Table>(to: &mut impl Extend<R>, rows: Vec<R>, texts: &mut Texts) {
    to.extend(rows.into_iter().map(|mut row| {
        row.share(texts);
        row
    }));
}

/// A table's file; `None` without rows.
fn table<R: Table>(rows: &mut [R]) -> io::Result<Option<(&'static str, Contents)>> {
    if rows.is_empty() && R::INFO.name != RANKS {
        return Ok(None);
    }
    Ok(Some((R::INFO.name, Contents::Memory(encode(rows)?))))
}

/// The file of events, one capture after the other.
fn events(
    spooled: &File,
    captures: &[(Key, (u64, u64))],
) -> io::Result<Option<(&'static str, Contents)>> {
    let file = NamedTempFile::new()?;
    let mut encoder = Encoder::<Event, _>::new(file.reopen()?)?;
    let mut rows = Vec::new();
    let mut count = 0;
    for (_, at) in captures {
        for event in events_at(spooled, *at)? {
            rows.push(event?);
            if rows.len() == GROUP {
                encoder.group(&rows)?;
                count += rows.len();
                rows.clear();
            }
        }
    }
    if !rows.is_empty() {
        encoder.group(&rows)?;
    }
    let is_empty = count + rows.len() == 0;
    encoder.finish()?.flush()?;
    Ok((!is_empty).then_some((Event::INFO.name, Contents::File(file))))
}

fn hash(run: &str, tables: &[(&str, Contents)]) -> io::Result<String> {
    let mut hash = Sha256::new();
    hash.update((run.len() as u64).to_be_bytes());
    hash.update(run);
    for (name, contents) in tables {
        let bytes = contents.bytes()?;
        hash.update((name.len() as u64).to_be_bytes());
        hash.update(name);
        hash.update(bytes.to_be_bytes());
        match contents {
            Contents::Memory(bytes) => hash.update(bytes),
            Contents::File(file) => {
                io::copy(&mut file.reopen()?, &mut Hashing(&mut hash))?;
            }
        }
    }
    let first = hash.finalize();
    Ok(first
        .iter()
        .take(16)
        .map(|byte| format!("{byte:02x}"))
        .collect())
}

struct Hashing<'a>(&'a mut Sha256);

impl io::Write for Hashing<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.update(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
