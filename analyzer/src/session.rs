//! What reading a capture gives: see [`crate::ask`].

use std::path::PathBuf;

use gpumem_capture::{Header, Integrity, OpenError, ReadError, Seq};

use crate::account::Account;
use crate::replay::{Query, Replay};
use crate::units::bytes;

/// A capture that was read to its end.
#[derive(Debug)]
pub struct Session {
    /// Figures and names.
    pub replay: Replay,
    /// Facts about the capture outside its records.
    pub header: Header,
    /// Which parts of the file are damaged.
    pub integrity: Integrity,
    /// The result of the accuracy check.
    pub account: Account,
    /// The point in time of the figures by stack.
    pub query: Query,
    /// The last record that was read. A second pass ends there, too.
    pub(crate) last: Seq,
}

impl Session {
    /// The title of the capture: the command, or the description of the replay.
    pub fn title(&self) -> String {
        let command = self.replay.names.command().unwrap_or_default().to_owned();
        match &self.account.replayed {
            None => command,
            Some(replayed) => replayed.title(),
        }
    }

    /// The title for a picture, with a note if stacks are sampled.
    pub fn subtitle(&self) -> String {
        let title = Some(self.title()).filter(|title| !title.is_empty());
        let parts: Vec<String> = title.into_iter().chain(self.account.sampled()).collect();
        parts.join(" · ")
    }
}

/// Why a capture could not be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The file cannot be opened as a capture.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// The system refused while reading.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// Another program writes a capture there now.
    #[error("{}: the capture was replaced by another file", path.display())]
    Replaced {
        /// The capture.
        path: PathBuf,
    },
    /// The capture needs more memory than this process may use ([`gpumem_budget`]).
    #[error("{}: reading it needs more than {} of memory", path.display(), bytes(*budget))]
    Memory {
        /// The capture.
        path: PathBuf,
        /// The budget in bytes.
        budget: u64,
    },
}

impl From<Error> for std::io::Error {
    fn from(error: Error) -> Self {
        Self::other(error)
    }
}

/// The result of a survey, for rows of all events.
#[derive(Debug)]
pub struct Survey {
    /// Names, whether there are steps and phases, and whether a module was called; no figures: see [`Replay::survey`].
    pub replay: Replay,
    /// Facts about the capture outside its records.
    pub header: Header,
}
