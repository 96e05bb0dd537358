//! A capture's rows before they are in a part: in memory, with its events in a separate file; or staged in a file.
//!
//! A staged file is Zstandard-compressed lines of JSON: the rows, then the events. The same capture gives the same
//! bytes.

use std::fs::File;
use std::io::{self, BufRead, BufReader, BufWriter, Read as _, Seek as _, SeekFrom};

use serde::{Deserialize, Serialize};

use crate::rows::{CaptureRows, Event, SCHEMA};

const LEVEL: i32 = 3;

/// Everything that a dataset stores of a capture.
pub struct Capture {
    /// Its rows, without events.
    pub rows: CaptureRows,
    /// Its path or address.
    pub from: String,
    /// Its events, if requested.
    pub events: Option<Spool>,
}

/// Events in a temporary file without a name.
pub struct Spool {
    file: File,
    events: u64,
}

/// Writes events in order.
pub struct SpoolWriter {
    out: zstd::Encoder<'static, BufWriter<File>>,
    events: u64,
}

impl SpoolWriter {
    /// Creates the file.
    ///
    /// # Errors
    /// Those of the system.
    pub fn new() -> io::Result<Self> {
        let out = zstd::Encoder::new(BufWriter::new(tempfile::tempfile()?), LEVEL)?;
        Ok(Self { out, events: 0 })
    }

    /// Writes an event.
    ///
    /// # Errors
    /// Those of the system.
    pub fn push(&mut self, event: &Event) -> io::Result<()> {
        self.events += 1;
        line(&mut self.out, event)
    }

    /// Finishes the file.
    ///
    /// # Errors
    /// Those of the system.
    pub fn finish(self) -> io::Result<Spool> {
        let file = self.out.finish()?.into_inner()?;
        let events = self.events;
        Ok(Spool { file, events })
    }
}

impl Spool {
    /// The number of events.
    pub fn events(&self) -> u64 {
        self.events
    }

    /// Appends it to a file; returns its offset and length.
    pub(crate) fn append(mut self, to: &mut File) -> io::Result<(u64, u64)> {
        self.file.seek(SeekFrom::Start(0))?;
        let from = to.seek(SeekFrom::End(0))?;
        let bytes = io::copy(&mut self.file, to)?;
        Ok((from, bytes))
    }
}

/// The events of a capture that were appended to a file.
pub(crate) fn events_at(
    file: &File,
    (from, bytes): (u64, u64),
) -> io::Result<impl Iterator<Item = io::Result<Event>>> {
    let mut file = file.try_clone()?;
    file.seek(SeekFrom::Start(from))?;
    let lines = BufReader::new(zstd::Decoder::new(file.take(bytes))?).lines();
    Ok(lines.map(|line| Ok(serde_json::from_str(&line?)?)))
}

/// The first line of a staged file.
#[derive(Serialize, Deserialize)]
struct Head<R> {
    schema: i64,
    from: String,
    has_events: bool,
    rows: R,
}

impl Capture {
    /// The number of its events.
    pub fn events(&self) -> u64 {
        self.events.as_ref().map_or(0, Spool::events)
    }

    /// Writes it as a staged file.
    ///
    /// # Errors
    /// Those of the system.
    pub fn write(self, out: impl io::Write) -> io::Result<()> {
        let mut out = zstd::Encoder::new(out, LEVEL)?;
        let head = Head {
            schema: SCHEMA,
            from: self.from,
            has_events: self.events.is_some(),
            rows: &self.rows,
        };
        line(&mut out, &head)?;
        if let Some(mut spool) = self.events {
            spool.file.seek(SeekFrom::Start(0))?;
            io::copy(&mut zstd::Decoder::new(spool.file)?, &mut out)?;
        }
        out.finish()?.flush()
    }

    /// Reads a staged file; `None` if another version of the tables wrote it.
    ///
    /// # Errors
    /// Those of the system, and if it is not a staged file.
    pub fn read(from: impl io::Read) -> io::Result<Option<Self>> {
        let mut lines = BufReader::new(zstd::Decoder::new(from)?);
        let mut first = String::new();
        lines.read_line(&mut first)?;
        let head: Head<serde_json::Value> = serde_json::from_str(&first)?;
        if head.schema != SCHEMA {
            return Ok(None);
        }
        let rows = serde_json::from_value(head.rows)?;
        let mut events = None;
        if head.has_events {
            let mut spool = SpoolWriter::new()?;
            for line in lines.lines() {
                spool.push(&serde_json::from_str(&line?)?)?;
            }
            events = Some(spool.finish()?);
        }
        Ok(Some(Self {
            rows,
            from: head.from,
            events,
        }))
    }
}

fn line(out: &mut impl io::Write, value: &impl Serialize) -> io::Result<()> {
    serde_json::to_writer(&mut *out, value)?;
    out.write_all(b"\n")
}
