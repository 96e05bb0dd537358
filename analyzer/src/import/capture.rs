//! Writes the capture: the recorder's own writer, drained by the thread that writes.

use std::io;
use std::path::Path;
use std::sync::Mutex;
use std::time::Duration;

use gpumem_capture::{
    CreateError, Definition, Event, Lost, Nanos, Options, Origin, RingPlace, Trouble, Writer,
};

/// Slots of the ring: definitions of up to 64 KiB.
const RING_SLOTS: u32 = 8192;
const SLOT_BYTES: u64 = 64;
/// A text is cut to so many bytes.
const TEXT_BYTES: usize = 16 << 10;

/// Why a capture could not be written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CaptureError {
    /// It could not be created.
    #[error(transparent)]
    Create(#[from] CreateError),
    /// It could not be written to.
    #[error("cannot write the capture: {0}")]
    Write(io::Error),
}

/// A capture under construction.
pub(super) struct Out {
    writer: &'static Writer,
    /// Slots that the ring holds.
    used: u64,
    /// Events written.
    pub events: u64,
    failure: Mutex<Option<io::Error>>,
}

impl Out {
    /// Opens a capture in `path`, which must not exist.
    pub fn create(path: &Path, origin: Origin) -> Result<Self, CaptureError> {
        let options = Options::default()
            .ring_slots(RING_SLOTS)
            .stall(Duration::ZERO)
            .ring(RingPlace::Private)
            .origin(origin);
        let writer = Writer::create(path, &options)?;
        // From now on the drain returns when it has moved what there is.
        writer.stop_drain();
        Ok(Self {
            writer,
            used: 0,
            events: 0,
            failure: Mutex::new(None),
        })
    }

    pub fn define(&mut self, definition: &Definition) -> Result<(), CaptureError> {
        let payload = definition.payload();
        self.make_room(1 + (payload.len() as u64).div_ceil(SLOT_BYTES))?;
        let written = self.writer.definition(definition.kind(), &[&payload]);
        written.map(drop).map_err(|lost| self.failed(lost))
    }

    pub fn event(&mut self, event: &Event) -> Result<(), CaptureError> {
        self.make_room(1)?;
        self.events += 1;
        let written = self.writer.event(event);
        written.map(drop).map_err(|lost| self.failed(lost))
    }

    /// Ends the capture at the last event's time.
    pub fn finish(mut self, time: Nanos) -> Result<(), CaptureError> {
        self.drain()?;
        self.writer.finish_at(time);
        self.writer.close_drain();
        self.drain()
    }

    fn make_room(&mut self, slots: u64) -> Result<(), CaptureError> {
        if self.used + slots > u64::from(RING_SLOTS) {
            self.drain()?;
        }
        self.used += slots;
        Ok(())
    }

    fn drain(&mut self) -> Result<(), CaptureError> {
        self.writer.drain_telling(&|trouble| {
            if let Trouble::Write(error) | Trouble::Full(error) = trouble {
                let error = io::Error::new(error.kind(), error.to_string());
                self.with_failure(|failure| *failure = Some(error));
            }
        });
        self.used = 0;
        let failure = self.with_failure(Option::take);
        failure.map_or(Ok(()), |error| Err(CaptureError::Write(error)))
    }

    fn with_failure<R>(&self, body: impl FnOnce(&mut Option<io::Error>) -> R) -> R {
        body(
            &mut self
                .failure
                .lock()
                .unwrap_or_else(|poisoned| poisoned.into_inner()),
        )
    }

    fn failed(&self, lost: Lost) -> CaptureError {
        let failure = self.with_failure(Option::take);
        CaptureError::Write(failure.unwrap_or_else(|| io::Error::other(format!("{lost:?}"))))
    }
}

/// A text that a definition has room for.
pub(super) fn cut(text: &str) -> String {
    let mut end = text.len().min(TEXT_BYTES);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    text[..end].to_owned()
}
