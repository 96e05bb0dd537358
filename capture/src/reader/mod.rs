//! Reads captures: whole, cut off, damaged, or still being written.
//!
//! # Design constraints
//! - Damage is normal input: intact data is read, missing data is reported ([`Integrity`]).
//! - Memory is bounded by the ring and a few pages, whatever the file states.
//! - Threads decode pages ahead; the result does not depend on the number of threads.
//! - Every released version of the format stays readable. So far there is one.
#![forbid(unsafe_code)]

mod bounded;
mod capture;
mod cursor;
mod dynamic;
mod embedded;
mod error;
mod follow;
mod growing;
mod input;
mod integrity;
mod pages;
mod parallel_decode;
mod progress;
mod queue;
mod records;
pub(crate) mod ring_file;
mod ring_image;

use std::io;
use std::path::Path;
use std::time::Duration;

pub use error::{OpenError, ReadError};
pub use follow::Follow;
pub(crate) use integrity::definition;
pub use integrity::{Bounded, Counters, Damage, Header, Integrity, LossRange, Record, RingState};
pub use progress::Progress;

use crate::header::{StaticHeader, Unreadable};
use crate::layout::{self, MAGIC, STATIC_BYTES};
use crate::page::Part;
use crate::recover::{MergeError, Merged, merge_open};
use capture::Capture;
pub(crate) use capture::is_closed;
pub(crate) use input::Input;
use progress::How;
pub(crate) use queue::Queue;
use records::read_all;

/// The system's error on opening.
fn io_error(path: &Path) -> impl Fn(io::Error) -> OpenError {
    move |source| OpenError::Io {
        path: path.to_owned(),
        source,
    }
}

/// How often the copies of a header are read, a millisecond apart, if they differ.
const LOOKS_AT_COPIES: u32 = 20;

/// A capture opened for reading.
#[derive(Debug)]
pub struct Reader {
    capture: Capture,
    progress: Progress,
    header: Header,
    own_bytes: u64,
    threads: Option<usize>,
}

impl Reader {
    /// Opens a capture.
    ///
    /// # Errors
    /// A specific reason for each kind of unreadable file; see [`OpenError`].
    pub fn open(path: &Path) -> Result<Self, OpenError> {
        Self::of(path, Input::open(path).map_err(io_error(path))?)
    }

    /// Opens a capture. If its process has ended, the contents of its ring are first merged into the file: see
    /// [`merge`](crate::merge).
    ///
    /// # Errors
    /// As [`Reader::open`]. A failed merge is not an error: the ring is then read in place.
    pub fn open_merged(path: &Path) -> Result<(Self, Result<Merged, MergeError>), OpenError> {
        let input = Input::open(path).map_err(io_error(path))?;
        let merged = merge_open(path, input.file());
        Ok((Self::of(path, input)?, merged))
    }

    fn of(path: &Path, input: Input) -> Result<Self, OpenError> {
        let io_error = |source| io_error(path)(source);
        let length = input.length().map_err(io_error)?;
        if length == 0 {
            return Err(OpenError::Empty {
                path: path.to_owned(),
            });
        }
        let mut found = [Err(Unreadable::Foreign); 2];
        for _ in 0..LOOKS_AT_COPIES {
            for (found, offset) in found.iter_mut().zip(layout::STATIC_COPIES) {
                let mut bytes = [0; STATIC_BYTES];
                let have = input.fill(offset, &mut bytes).map_err(io_error)?;
                *found = StaticHeader::decode(&bytes);
                if (1..MAGIC.len()).contains(&have) && MAGIC.starts_with(&bytes[..have]) {
                    *found = Err(Unreadable::Damaged("it is cut off"));
                }
            }
            // A capture that is being created has the first copy before the second one.
            if found[0].is_err() || found[0] == found[1] {
                break;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        let (header, second_copy) = match found {
            [Ok(first), second] => (first, (second != Ok(first)).then_some(false)),
            [Err(_), Ok(second)] => (second, Some(true)),
            [Err(first), Err(second)] => {
                let path = path.to_owned();
                return Err(match (first, second) {
                    (Unreadable::Future(found), _) | (_, Unreadable::Future(found)) => {
                        OpenError::FutureVersion {
                            path,
                            found,
                            supported: layout::VERSION,
                        }
                    }
                    (Unreadable::Damaged(what), _) | (_, Unreadable::Damaged(what))
                        if length >= layout::RING_OFFSET =>
                    {
                        OpenError::DamagedHeader { path, what }
                    }
                    (Unreadable::Foreign, Unreadable::Foreign) => OpenError::Foreign { path },
                    _ => OpenError::TooShort {
                        path,
                        length,
                        needed: layout::RING_OFFSET,
                    },
                });
            }
        };
        let capture = Capture::new(input, header, second_copy, length).map_err(io_error)?;
        let own_bytes = capture.own_bytes(length);
        if own_bytes < layout::RING_OFFSET {
            let (path, needed) = (path.to_owned(), layout::RING_OFFSET);
            return Err(OpenError::TooShort {
                path,
                length,
                needed,
            });
        }
        let header = capture.header().map_err(io_error)?;
        Ok(Self {
            capture,
            progress: Progress::new(own_bytes),
            header,
            own_bytes,
            threads: None,
        })
    }

    /// Bytes of the capture itself at opening, without the embedded part.
    pub fn own_bytes(&self) -> u64 {
        self.own_bytes
    }

    /// Fills `bytes` with the capture's own from `offset` on; returns how many were available.
    pub(crate) fn own_bytes_at(&self, offset: u64, bytes: &mut [u8]) -> io::Result<usize> {
        self.capture.own_bytes_at(offset, bytes)
    }

    /// The facts about the capture at opening.
    pub fn header(&self) -> &Header {
        &self.header
    }

    /// The current counters of the recorder. Rows with a wrong checksum are omitted and reported by [`Reader::read`].
    pub fn counters(&self) -> Counters {
        self.capture.counters()
    }

    /// Total number of bytes to read.
    pub fn total_bytes(&self) -> u64 {
        self.progress.total()
    }

    /// Bytes read so far.
    pub fn position(&self) -> u64 {
        self.progress.position()
    }

    /// A handle that returns the progress of reading, also within [`Reader::read`]'s sink.
    pub fn progress(&self) -> Progress {
        self.progress.clone()
    }

    /// Sets the number of threads that decode pages in addition to the calling one. The default depends on the number
    /// of cores and the capture's length. The result is the same.
    pub fn decode_on(&mut self, threads: usize) {
        self.threads = Some(threads);
    }

    /// Passes every record to `sink` in the order of sequence numbers, on the calling thread, and then returns how
    /// complete the capture is. May be called again: it starts over.
    ///
    /// # Errors
    /// Only the system's: damage is reported in [`Integrity`].
    pub fn read(&mut self, sink: &mut dyn FnMut(Record<'_>)) -> Result<Integrity, ReadError> {
        let how = How {
            threads: self.threads,
            part: Part::Records,
        };
        read_all(&self.capture, how, &self.progress, sink)
    }

    /// Passes every existing record to `follow`, then new ones while the process runs, in order. At the end returns
    /// how complete the capture is; `None` if `follow` stopped before.
    ///
    /// # Errors
    /// As [`Reader::read`].
    pub fn follow(&mut self, follow: &mut dyn Follow) -> Result<Option<Integrity>, ReadError> {
        let how = How {
            threads: self.threads,
            part: Part::Records,
        };
        follow::follow(&self.capture, how, &self.progress, follow)
    }

    /// Passes the definitions and the sites of events to `sink`, in less time than all records take: for each page its
    /// definitions, then one event for each distinct site. This event has the number of the page's last record, and zeros
    /// for its time, address, bytes, slack and `aux`. Events of the ring and of a bounded capture are passed on unchanged.
    /// Completeness is not checked.
    ///
    /// # Errors
    /// As [`Reader::read`].
    pub fn read_sites(&mut self, sink: &mut dyn FnMut(Record<'_>)) -> Result<(), ReadError> {
        let how = How {
            threads: self.threads,
            part: Part::Sites,
        };
        read_all(&self.capture, how, &self.progress, sink).map(drop)
    }

    /// Passes only the definitions to `sink`, in order, and skips pages without definitions: for fast access to names.
    /// For a bounded capture, the state is passed on too. Completeness is not checked.
    ///
    /// # Errors
    /// As [`Reader::read`].
    pub fn read_names(&mut self, sink: &mut dyn FnMut(Record<'_>)) -> Result<(), ReadError> {
        let named = &mut |record: Record<'_>| match record {
            Record::Definition(..) | Record::State(..) => sink(record),
            _ => {}
        };
        // The caller may be the recorded process itself: no thread is started there.
        let how = How {
            threads: Some(0),
            part: Part::Definitions,
        };
        read_all(&self.capture, how, &self.progress, named).map(drop)
    }
}
