//! Errors of the writer, and how they are reported.

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
    /// The system's error number, 0 if the error did not come from the system.
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
    /// This is a forked child of the capture's process, or recording has ended.
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
    /// A thread holds a lock of the recorder and makes no progress.
    #[error("a thread was stopped or killed while it recorded an event")]
    HeldTooLong = 1,
    /// The memory of the ring was taken away from the process.
    #[error("the memory of its ring was truncated or its disk is gone")]
    MemoryGone = 2,
    /// The capture's file could not be created.
    #[error("its file could not be created")]
    NoFile = 3,
    /// The process has no more memory.
    #[error("the program has used up its memory")]
    NoMemory = 4,
}

/// A problem that one of gpumem's threads reports, once each time it starts.
#[derive(Debug)]
#[non_exhaustive]
pub enum Trouble<'a> {
    /// The capture's file could not be written.
    Write(&'a io::Error),
    /// A write to the capture's file has not returned for a second.
    Stuck,
    /// Another program has cut off or overwritten that many bytes of pages. The reader reports their events as missing.
    Cut(u64),
    /// There is no more room for data that waits to be written: events are lost.
    Full(&'a io::Error),
}
