//! Writes the capture.

use std::path::Path;

use gpumem_capture::{Definition, Event, Nanos, OfflineWriter, Origin};

pub use gpumem_capture::OfflineError as CaptureError;

/// Slots of the ring, which limit definitions to 64 KiB.
const RING_SLOTS: u32 = 8192;
/// The maximum length of a text.
const TEXT_BYTES: usize = 16 << 10;

/// A capture under construction.
pub(super) struct Out {
    writer: OfflineWriter,
    /// Events written.
    pub events: u64,
}

impl Out {
    /// Opens a capture in `path`, which must not exist.
    pub fn create(path: &Path, origin: Origin) -> Result<Self, CaptureError> {
        Ok(Self {
            writer: OfflineWriter::create(path, origin, RING_SLOTS)?,
            events: 0,
        })
    }

    pub fn define(&mut self, definition: &Definition) -> Result<(), CaptureError> {
        self.writer.define(definition).map(drop)
    }

    pub fn event(&mut self, event: &Event) -> Result<(), CaptureError> {
        self.events += 1;
        self.writer.event(event).map(drop)
    }

    /// Ends the capture at the time of the last event.
    pub fn finish(self, time: Nanos) -> Result<(), CaptureError> {
        self.writer.finish(time)
    }
}

/// Truncates a text to the size that a definition can hold.
pub(super) fn cut(text: &str) -> String {
    let mut end = text.len().min(TEXT_BYTES);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    text[..end].to_owned()
}
