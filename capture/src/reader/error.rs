//! Why a file cannot be read as a capture.

use std::io;
use std::path::PathBuf;

/// Why a capture could not be opened.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// The system refused.
    #[error("{}: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The file is empty.
    #[error("{}: the file is empty", path.display())]
    Empty {
        /// The file.
        path: PathBuf,
    },
    /// The file is not a capture.
    #[error("{}: not a gpumem capture", path.display())]
    Foreign {
        /// The file.
        path: PathBuf,
    },
    /// The file was written by a newer gpumem.
    #[error(
        "{}: written in version {found} of the format, which a newer gpumem reads; this one reads up \
         to version {supported}",
        path.display()
    )]
    FutureVersion {
        /// The file.
        path: PathBuf,
        /// Its version.
        found: u32,
        /// The newest version that this crate reads.
        supported: u32,
    },
    /// The file starts as a capture does but ends within its header and counters.
    #[error(
        "{}: cut off after {length} bytes, within the header of {needed} bytes: nothing can be read",
        path.display()
    )]
    TooShort {
        /// The file.
        path: PathBuf,
        /// Its length.
        length: u64,
        /// Its minimum length.
        needed: u64,
    },
    /// Both copies of the header are damaged.
    #[error("{}: both copies of the header are damaged: {what}", path.display())]
    DamagedHeader {
        /// The file.
        path: PathBuf,
        /// The mismatch.
        what: &'static str,
    },
}

/// An I/O error that stopped reading. Damage is not an error, see [`crate::Integrity`].
#[derive(Debug, thiserror::Error)]
#[error("{}: at byte {offset}: {source}", path.display())]
#[non_exhaustive]
pub struct ReadError {
    /// The file.
    pub path: PathBuf,
    /// The offset in it.
    pub offset: u64,
    /// Why.
    pub source: io::Error,
}
