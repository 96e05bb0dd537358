//! A part: captures of a run whose rows are written together.

use std::collections::{BTreeSet, HashSet};
use std::fs::File;
use std::io::{self, Write as _};
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use tempfile::NamedTempFile;

use crate::encode::{Encoder, GROUP, encode};
use crate::keys::Key;
use crate::layout::{DataFile, RANKS, SEVERAL, name_of};
use crate::rows::{
    Event, Failure, Frame, Held, Label, LedgerEntry, Line, Rank, SCHEMA, SeriesPoint, Step,
};
use crate::staged::{Capture, events_at};
use crate::table::{Table, Texts};

/// A capture of a part.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Source {
    /// The capture.
    pub capture: Key,
    /// Its path or address.
    pub from: String,
}

/// An entry of the list of parts: `_parts/00000001.json`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    /// The version of the tables.
    pub schema: i64,
    /// The name of its files.
    pub part: String,
    /// The run, as a name.
    pub run: String,
    /// The node, as a name.
    pub node: String,
    /// The tables that it has files of.
    pub tables: Vec<String>,
    /// When the last of its captures ended: microseconds since 1970.
    pub newest: i64,
    /// The host and the process that began it.
    pub by: (String, u32),
    /// The options of the ingest; null if the captures were staged.
    pub options: serde_json::Value,
    /// Its captures.
    pub captures: Vec<Source>,
}

impl Entry {
    /// Its file for a table.
    pub fn file(&self, table: &'static str) -> DataFile {
        DataFile {
            run: self.run.clone(),
            table,
            node: self.node.clone(),
            part: self.part.clone(),
        }
    }
}

/// A part whose files are ready to be written.
pub struct Made {
    /// The entry for the list.
    pub entry: Entry,
    /// The files, `ranks` last.
    pub(crate) files: Vec<(DataFile, Contents)>,
}

pub(crate) enum Contents {
    Memory(Vec<u8>),
    File(NamedTempFile),
}

/// Captures of a run whose part is not yet full.
#[derive(Default)]
pub struct Gathered {
    run: String,
    captures: Vec<Source>,
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
        let from = capture.from;
        self.captures.push(Source { capture: key, from });
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

    /// The part's files. Its name is a hash of them.
    ///
    /// # Errors
    /// Those of the encoder and of the system.
    pub fn make(mut self, by: (String, u32), options: serde_json::Value) -> io::Result<Made> {
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
        let entry = Entry {
            schema: SCHEMA,
            part: hash(&tables)?,
            run: self.run,
            node,
            tables: tables.iter().map(|(name, _)| (*name).into()).collect(),
            newest: self.newest,
            by,
            options,
            captures: self.captures,
        };
        let files = tables.into_iter();
        let files = files
            .map(|(name, contents)| (entry.file(name), contents))
            .collect();
        Ok(Made { entry, files })
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

fn hash(tables: &[(&str, Contents)]) -> io::Result<String> {
    let mut hash = Sha256::new();
    for (name, contents) in tables {
        let bytes = match contents {
            Contents::Memory(bytes) => bytes.len() as u64,
            Contents::File(file) => file.as_file().metadata()?.len(),
        };
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
