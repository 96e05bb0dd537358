//! Facts about a capture in JSON.

use std::num::NonZeroU64;
use std::path::Path;

use gpumem_capture::ProcessKey;
use schemars::JsonSchema;
use serde::Serialize;

use crate::session::Session;

/// The capture: its program, and how far its figures are proven.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Capture {
    /// Its file, as it was named on the command line.
    pub file: String,
    /// The program's command line.
    pub command: Option<String>,
    /// The folder in which the program was started. Relative names of files start there.
    pub directory: Option<String>,
    /// The machine's name.
    pub host: Option<String>,
    /// The program's process.
    pub pid: u32,
    /// Its rank in a job.
    pub rank: Option<u64>,
    /// When recording began: nanoseconds since 1970-01-01 UTC.
    pub started_unix_ns: u64,
    /// How the program ended: `clean`, `running` or `killed`.
    pub ending: &'static str,
    /// Events in the capture.
    pub events: u64,
    /// Whether all figures are proven: nothing is missing. The exit code is 3 if not.
    pub exact: bool,
    /// Whether the file is whole: no part of it is damaged and no event was lost.
    pub intact: bool,
    /// Events that the recorder lost.
    pub lost_events: u64,
    /// What is missing, one sentence each.
    pub missing: Vec<String>,
    /// What else must be said, one sentence each.
    pub notes: Vec<String>,
    /// If the stacks of tensors were sampled: the mean distance in bytes between those that were taken. Figures by
    /// line and by stack are estimates then. Totals and peaks are not.
    pub stack_sample_bytes: Option<NonZeroU64>,
}

impl Capture {
    /// Of a capture that was read.
    pub fn of(file: &Path, session: &Session) -> Self {
        let (names, account) = (&session.replay.names, &session.account);
        let fact = |key| names.fact(key).map(str::to_owned);
        Self {
            file: file.display().to_string(),
            command: fact(ProcessKey::COMMAND),
            directory: fact(ProcessKey::DIRECTORY),
            host: fact(ProcessKey::HOST),
            pid: session.header.pid,
            rank: names
                .fact(ProcessKey::RANK)
                .and_then(|rank| rank.parse().ok()),
            started_unix_ns: session.header.started_wall_ns,
            ending: account.ending.word(),
            events: session.integrity.events,
            exact: account.is_exact(),
            intact: session.integrity.is_whole(),
            lost_events: account.events_lost,
            missing: account.missing.clone(),
            notes: account.notes.clone(),
            stack_sample_bytes: account.sampling.map(|sampling| sampling.mean),
        }
    }
}
