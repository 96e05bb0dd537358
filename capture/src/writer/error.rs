//! What can fail, and what is reported of it.

use std::io;
use std::path::PathBuf;

/// Why a capture could not be opened.
#[derive(Debug, thiserror::Error)]
#[error("{}: cannot {action}: {source}", path.display())]
#[non_exhaustive]
pub struct CreateError {
    /// The file that was to be created.
    pub path: PathBuf,
    /// What failed.
    pub action: &'static str,
    /// Why.
    pub source: io::Error,
}

impl CreateError {
    /// The system's error number, 0 if it was not the system that refused.
    pub fn errno(&self) -> i32 {
        self.source.raw_os_error().unwrap_or(0)
    }
}

/// Why a record was not recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Lost {
    /// The ring stayed full.
    #[error("the ring is full and the drain does not empty it")]
    RingFull,
    /// The definition is larger than a definition may be.
    #[error("the definition is larger than the ring allows")]
    TooLarge,
    /// This is a forked child of the process whose capture it is, or recording has ended.
    #[error("the capture belongs to another process, or recording has ended")]
    OtherProcess,
    /// Recording ended while this was recorded: see [`super::Writer::ended`].
    #[error("recording has ended")]
    Ended,
}

/// Why recording ended before the process did.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
#[repr(u8)]
pub enum Ended {
    /// A thread holds a lock of the recorder and does not go on.
    #[error("a thread was stopped or killed while it recorded an event")]
    HeldTooLong = 1,
    /// The memory of the ring went away under the process.
    #[error("the memory of its ring was truncated or its disk is gone")]
    MemoryGone = 2,
    /// The capture's file could not be created.
    #[error("its file could not be created")]
    NoFile = 3,
}

/// What a thread of ours reports, once each time that it begins.
#[derive(Debug)]
#[non_exhaustive]
pub enum Trouble<'a> {
    /// The capture's file could not be written.
    Write(&'a io::Error),
    /// A write to the capture's file has not returned for a second.
    Stuck,
    /// What waits to be written has no more room: events are lost.
    Full(&'a io::Error),
}
