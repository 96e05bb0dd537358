//! The file as the reader sees it: ordinary reads at offsets, zeros past the end.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};

use super::ReadError;

#[derive(Debug)]
pub(super) struct Input {
    path: PathBuf,
    file: File,
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
        })
    }

    pub(super) fn length(&self) -> io::Result<u64> {
        Ok(self.file.metadata()?.len())
    }

    /// Fills `bytes` from `offset` on; returns how many the file had, the rest is zeroed.
    pub(super) fn fill(&self, offset: u64, bytes: &mut [u8]) -> io::Result<usize> {
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
