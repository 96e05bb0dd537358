//! Exit codes of commands, and notes about what a result lacks.

use std::io::ErrorKind;
use std::path::Path;

use gpumem_analyzer::account::place;
use gpumem_analyzer::session::{self, Session};
use gpumem_analyzer::unanswered::lacks_older;
use gpumem_capture::{DeviceOrdinal, Level, OpenError};

use super::foreign;
use super::output::Notes;

/// The outcome of a command that has a result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// Nothing is missing.
    Complete,
    /// Something is missing, and was reported.
    Partial,
    /// A limit was exceeded, and that was reported.
    Beyond,
}

impl Exit {
    /// Depends on whether the account is exact.
    pub fn of(session: &Session) -> Self {
        if session.account.is_exact() {
            Self::Complete
        } else {
            Self::Partial
        }
    }

    /// The process's exit code.
    pub fn code(self) -> u8 {
        match self {
            Self::Complete => 0,
            Self::Partial => 3,
            Self::Beyond => 4,
        }
    }
}

/// The error, with advice.
pub fn explained(path: &Path, error: &session::Error) -> anyhow::Error {
    if let Some(advice) = foreign::advice(path)
        && let session::Error::Open(_) = error
    {
        return match path.is_dir() {
            true => anyhow::anyhow!("{}: a folder, not a capture: {advice}", path.display()),
            false => anyhow::anyhow!("{error}: {advice}"),
        };
    }
    let advice = match error {
        session::Error::Open(OpenError::Io { source, .. }) => match source.kind() {
            ErrorKind::NotFound => {
                "record one with gpumem run PROGRAM (writes report.bin, or the path in GPUMEM_OUTPUT)"
            }
            ErrorKind::PermissionDenied => "run this as the user who recorded it",
            _ => "name a report.bin that libgpumem.so wrote",
        },
        session::Error::Open(OpenError::Foreign { .. }) => {
            "name a report.bin that libgpumem.so wrote"
        }
        session::Error::Open(OpenError::FutureVersion { .. }) => {
            "update gpumem, or use the gpumem-analyze that came with the recorder"
        }
        session::Error::Memory { .. } => "--max-memory allows more",
        session::Error::Open(_) => "copy it again from the machine that recorded it",
        _ if path.exists() => "try again, or copy the file to another disk",
        _ => "the file was removed",
    };
    anyhow::anyhow!("{error}: {advice}")
}

impl Notes<'_> {
    /// What is missing and whether stacks are sampled, for JSON and pictures, which do not contain it.
    pub fn caveats(&mut self, session: &Session) {
        if let Some(sampled) = session.account.sampled() {
            self.say(sampled);
        }
        for line in &session.account.missing {
            self.say(format_args!("partial: {line}"));
        }
    }

    /// That a bounded capture lacks a part of something.
    pub fn bounded(&mut self, session: &Session, what: &str) {
        if let Some(line) = lacks_older(session, what) {
            self.say(line);
        }
    }

    /// On which devices the rows do not add up to the level's own figure: (device, sum, figure).
    pub fn mismatches(
        &mut self,
        mismatches: &[(DeviceOrdinal, u64, u64)],
        rows: &str,
        level: Level,
    ) {
        for (device, sum, figure) in mismatches {
            let device = place(*device);
            self.say(format_args!(
                "partial: {device}: the {rows} sum to {sum} bytes, the {level} level has {figure}"
            ));
        }
    }
}
