//! Writes a capture of records that this process did not create: one thread writes and drains, and times come from the
//! records.

use std::io;
use std::path::Path;
use std::sync::Mutex;
use std::time::Duration;

use super::error::{CreateError, Lost, Trouble};
use super::options::{Options, Origin, RingPlace};
use super::shared::Writer;
use crate::{Definition, Event, Nanos, Seq};

const SLOT_BYTES: u64 = 64;

/// Why a capture could not be written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OfflineError {
    /// It could not be created.
    #[error(transparent)]
    Create(#[from] CreateError),
    /// It could not be written to.
    #[error("cannot write the capture: {0}")]
    Write(io::Error),
}

/// A capture under construction.
pub struct OfflineWriter {
    writer: &'static Writer,
    ring_slots: u32,
    /// The number of used slots of the ring.
    used: u64,
    failure: Mutex<Option<io::Error>>,
}

impl OfflineWriter {
    /// Opens a capture in `path`, which must not exist. The maximum size of a definition is an eighth of the ring, at
    /// most 1 MiB.
    ///
    /// # Errors
    /// [`OfflineError::Create`].
    pub fn create(path: &Path, origin: Origin, ring_slots: u32) -> Result<Self, OfflineError> {
        let options = Options::default()
            .ring_slots(ring_slots)
            .stall(Duration::ZERO)
            .ring(RingPlace::Private)
            .origin(origin);
        let writer = Writer::create(path, &options)?;
        // From now on the drain returns when it has moved all records.
        writer.stop_drain();
        Ok(Self {
            writer,
            ring_slots: options.ring_slots,
            used: 0,
            failure: Mutex::new(None),
        })
    }

    /// Writes a definition.
    ///
    /// # Errors
    /// [`OfflineError::Write`].
    pub fn define(&mut self, definition: &Definition) -> Result<Seq, OfflineError> {
        let payload = definition.payload();
        self.make_room(1 + (payload.len() as u64).div_ceil(SLOT_BYTES))?;
        let written = self.writer.definition(definition.kind(), &[&payload]);
        written.map_err(|lost| self.failed(lost))
    }

    /// Writes an event.
    ///
    /// # Errors
    /// As [`OfflineWriter::define`].
    pub fn event(&mut self, event: &Event) -> Result<Seq, OfflineError> {
        self.event_to(event, None)
    }

    /// The same for an event after which `live` bytes are live according to another counter: see [`Writer::event_to`].
    ///
    /// # Errors
    /// As [`OfflineWriter::define`].
    pub fn event_to(&mut self, event: &Event, live: Option<u64>) -> Result<Seq, OfflineError> {
        self.make_room(1)?;
        let written = self.writer.event_to(event, live);
        written.map_err(|lost| self.failed(lost))
    }

    /// Ends the capture at `time`.
    ///
    /// # Errors
    /// As [`OfflineWriter::define`].
    pub fn finish(mut self, time: Nanos) -> Result<(), OfflineError> {
        self.drain()?;
        self.writer.finish_at(time);
        self.writer.close_drain();
        self.drain()
    }

    fn make_room(&mut self, slots: u64) -> Result<(), OfflineError> {
        if self.used + slots > u64::from(self.ring_slots) {
            self.drain()?;
        }
        self.used += slots;
        Ok(())
    }

    fn drain(&mut self) -> Result<(), OfflineError> {
        self.writer.drain_telling(&|trouble| {
            if let Trouble::Write(error) | Trouble::Full(error) = trouble {
                let error = io::Error::new(error.kind(), error.to_string());
                self.with_failure(|failure| *failure = Some(error));
            }
        });
        self.used = 0;
        let failure = self.with_failure(Option::take);
        failure.map_or(Ok(()), |error| Err(OfflineError::Write(error)))
    }

    fn with_failure<R>(&self, body: impl FnOnce(&mut Option<io::Error>) -> R) -> R {
        body(
            &mut self
                .failure
                .lock()
                .unwrap_or_else(|poisoned| poisoned.into_inner()),
        )
    }

    fn failed(&self, lost: Lost) -> OfflineError {
        let failure = self.with_failure(Option::take);
        OfflineError::Write(failure.unwrap_or_else(|| io::Error::other(format!("{lost:?}"))))
    }
}
