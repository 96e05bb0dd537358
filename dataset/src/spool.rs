//! What is taken of a capture: its rows in memory, its events in a temporary file.

use std::fs::File;
use std::io::{
    self, BufRead as _, BufReader, BufWriter, Read as _, Seek as _, SeekFrom, Write as _,
};

use crate::rows::{CaptureRows, Event};

const LEVEL: i32 = 3;

/// Everything that a dataset stores of a capture.
pub struct Capture {
    /// Its rows, without events.
    pub rows: CaptureRows,
    /// Its events, if requested.
    pub events: Option<Spool>,
}

/// Events in a temporary file without a name: Zstandard-compressed lines of JSON.
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
        serde_json::to_writer(&mut self.out, event)?;
        self.out.write_all(b"\n")
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
    pub(crate) fn events(&self) -> u64 {
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
