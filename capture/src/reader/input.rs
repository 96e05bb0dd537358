//! The reader's view of the file: ordinary reads at offsets, zeros past the end.

use std::fs::File;
use std::io;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use super::error::ReadError;
use super::queue::Queue;
use crate::file;

/// Minimum and maximum size of a read during a search.
const SEARCH_BYTES: (usize, usize) = (4096, 1 << 20);

/// The number of attempts to read a place again that has left the queue meanwhile.
const LOOKS: usize = 16;

#[derive(Debug)]
pub(crate) struct Input {
    path: PathBuf,
    file: File,
    /// The end of the capture itself, if names are embedded after it.
    own_end: u64,
    /// The data that is not yet written to the file.
    queue: Option<Box<Queue>>,
}

impl Input {
    pub(crate) fn open(path: &Path) -> io::Result<Self> {
        // A pipe is not waited for.
        let file = File::options()
            .read(true)
            .custom_flags(libc::O_NONBLOCK | libc::O_NOCTTY)
            .open(path)?;
        if !file.metadata()?.is_file() {
            return Err(io::Error::other("not an ordinary file"));
        }
        Ok(Self {
            path: path.to_owned(),
            file,
            own_end: u64::MAX,
            queue: None,
        })
    }

    /// The same for an open file.
    pub(crate) fn of(path: &Path, file: File) -> Self {
        Self {
            path: path.to_owned(),
            file,
            own_end: u64::MAX,
            queue: None,
        }
    }

    /// The open file.
    pub(crate) fn file(&self) -> &File {
        &self.file
    }

    /// Treats the data in the queue as written from now on.
    pub(crate) fn with_queue(&mut self, queue: Queue) {
        self.queue = Some(Box::new(queue));
    }

    /// Reads the queue again; call it after reading the field that determines the end of the file's content.
    pub(crate) fn refresh(&self) -> io::Result<()> {
        self.queue.as_ref().map_or(Ok(()), |queue| queue.refresh())
    }

    pub(crate) fn length(&self) -> io::Result<u64> {
        let queued = self.queue.as_ref().map_or(0, |queue| queue.end());
        Ok(self.file.metadata()?.len().max(queued))
    }

    /// The file itself.
    pub(crate) fn metadata(&self) -> io::Result<std::fs::Metadata> {
        self.file.metadata()
    }

    /// The current length of the capture itself.
    pub(crate) fn own_length(&self) -> io::Result<u64> {
        Ok(self.length()?.min(self.own_end))
    }

    /// The number of bytes to read at once in a search from `offset` to the end: at most the available ones.
    pub(crate) fn search_bytes(&self, offset: u64) -> Result<usize, ReadError> {
        let length = self
            .own_length()
            .map_err(|source| self.error(offset, source))?;
        let rest = usize::try_from(length.saturating_sub(offset)).unwrap_or(SEARCH_BYTES.1);
        Ok(rest.clamp(SEARCH_BYTES.0, SEARCH_BYTES.1))
    }

    /// Treats this offset as the file's end from now on, except in [`Input::read_embedded`].
    pub(crate) fn end_at(&mut self, own_end: u64) {
        self.own_end = own_end;
    }

    /// Fills `bytes` from `offset` on; returns how many the file had, the rest is zeroed.
    pub(crate) fn fill(&self, offset: u64, bytes: &mut [u8]) -> io::Result<usize> {
        let own = self.own_end.saturating_sub(offset);
        let own = usize::try_from(own).map_or(bytes.len(), |own| own.min(bytes.len()));
        bytes[own..].fill(0);
        self.fill_any(offset, &mut bytes[..own])
    }

    /// [`Input::read`] for data after the capture itself.
    pub(crate) fn read_embedded(&self, offset: u64, bytes: &mut [u8]) -> Result<usize, ReadError> {
        self.fill_any(offset, bytes)
            .map_err(|source| self.error(offset, source))
    }

    fn fill_any(&self, offset: u64, bytes: &mut [u8]) -> io::Result<usize> {
        let Some(queue) = &self.queue else {
            return file::fill(&self.file, offset, bytes);
        };
        // Data that leaves the queue meanwhile is in the file by then.
        for _ in 0..LOOKS {
            let have = file::fill(&self.file, offset, bytes)?;
            if let Some(queued) = queue.fill(offset, bytes)? {
                return Ok(have.max(queued));
            }
        }
        file::fill(&self.file, offset, bytes)
    }

    /// [`Input::fill`] with the error that [`super::Reader::read`] returns.
    pub(crate) fn read(&self, offset: u64, bytes: &mut [u8]) -> Result<usize, ReadError> {
        self.fill(offset, bytes)
            .map_err(|source| self.error(offset, source))
    }

    pub(crate) fn error(&self, offset: u64, source: io::Error) -> ReadError {
        ReadError {
            path: self.path.clone(),
            offset,
            source,
        }
    }
}
