//! The file as the reader sees it: ordinary reads at offsets, zeros past the end.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};

use super::ReadError;

/// The least and the most that is read at once when looking for something.
const SEARCH_BYTES: (usize, usize) = (4096, 1 << 20);

#[derive(Debug)]
pub(super) struct Input {
    path: PathBuf,
    file: File,
    /// Where the capture itself ends, if names are baked in behind it.
    own_end: u64,
}

impl Input {
    pub(super) fn open(path: &Path) -> io::Result<Self> {
        let file = File::open(path)?;
        if !file.metadata()?.is_file() {
            return Err(io::Error::other("not an ordinary file"));
        }
        Ok(Self {
            path: path.to_owned(),
            file,
            own_end: u64::MAX,
        })
    }

    pub(super) fn length(&self) -> io::Result<u64> {
        Ok(self.file.metadata()?.len())
    }

    /// How long the capture itself is now.
    pub(super) fn own_length(&self) -> io::Result<u64> {
        Ok(self.length()?.min(self.own_end))
    }

    /// How much to read at once when looking for something from `offset` on to the end: no more than
    /// there is.
    pub(super) fn search_bytes(&self, offset: u64) -> Result<usize, ReadError> {
        let length = self
            .own_length()
            .map_err(|source| self.error(offset, source))?;
        let rest = usize::try_from(length.saturating_sub(offset)).unwrap_or(SEARCH_BYTES.1);
        Ok(rest.clamp(SEARCH_BYTES.0, SEARCH_BYTES.1))
    }

    /// From now on the file ends there, but for [`Input::read_baked`].
    pub(super) fn end_at(&mut self, own_end: u64) {
        self.own_end = own_end;
    }

    /// Fills `bytes` from `offset` on; returns how many the file had, the rest is zeroed.
    pub(super) fn fill(&self, offset: u64, bytes: &mut [u8]) -> io::Result<usize> {
        let own = self.own_end.saturating_sub(offset);
        let own = usize::try_from(own).map_or(bytes.len(), |own| own.min(bytes.len()));
        bytes[own..].fill(0);
        self.fill_any(offset, &mut bytes[..own])
    }

    /// [`Input::read`] of what lies behind the capture itself.
    pub(super) fn read_baked(&self, offset: u64, bytes: &mut [u8]) -> Result<usize, ReadError> {
        self.fill_any(offset, bytes)
            .map_err(|source| self.error(offset, source))
    }

    fn fill_any(&self, offset: u64, bytes: &mut [u8]) -> io::Result<usize> {
        let mut have = 0;
        while have < bytes.len() {
            match self.file.read_at(&mut bytes[have..], offset + have as u64) {
                Ok(0) => break,
                Ok(count) => have += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        bytes[have..].fill(0);
        Ok(have)
    }

    /// [`Input::fill`] with the error that [`super::Reader::read`] returns.
    pub(super) fn read(&self, offset: u64, bytes: &mut [u8]) -> Result<usize, ReadError> {
        self.fill(offset, bytes)
            .map_err(|source| self.error(offset, source))
    }

    pub(super) fn error(&self, offset: u64, source: io::Error) -> ReadError {
        ReadError {
            path: self.path.clone(),
            offset,
            source,
        }
    }
}
