//! Facts about a capture in JSON.

use std::num::NonZeroU64;
use std::path::Path;

use gpumem_capture::ProcessKey;
use schemars::JsonSchema;
use serde::Serialize;

use crate::session::Session;

/// A capture that was read: its program, and whether its figures are exact.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Capture {
    /// Path of the capture, as it was named on the command line.
    pub file: String,
    /// Command line of the program, each argument quoted for a shell; `None`: not known.
    pub command: Option<String>,
    /// Working directory of the program when recording began, to which its relative file names refer; `None`: not
    /// known.
    pub directory: Option<String>,
    /// Host name of the machine on which the program ran; `None`: not known.
    pub host: Option<String>,
    /// Process ID of the program; 0: not known, as in an imported capture.
    pub pid: u32,
    /// Rank of the process in its job, from the launcher's environment; `None`: it has no rank.
    pub rank: Option<u64>,
    /// Time at which recording began, in nanoseconds since 1970-01-01 UTC.
    pub started_unix_ns: u64,
    /// How the program ended: `clean` (it exited normally), `running` (it has not ended) or `killed` (it ended
    /// without running its exit handlers).
    pub ending: &'static str,
    /// Number of events in the capture.
    pub events: u64,
    /// Whether all figures are proven to be exact: `missing` is empty. If not, the exit code is 3.
    pub exact: bool,
    /// Whether the file is intact: no part of it is damaged or missing, and the recorder lost no event.
    pub intact: bool,
    /// Number of events that the recorder lost, and which the capture therefore lacks.
    pub lost_events: u64,
    /// Everything that is missing or inconsistent in the capture, one sentence each; empty: the figures are exact.
    pub missing: Vec<String>,
    /// Other facts about the accuracy of the capture, one sentence each; they do not make figures inexact.
    pub notes: Vec<String>,
    /// Mean distance in allocated bytes between tensors whose stacks were recorded. With sampled stacks, bytes by
    /// line and by stack are estimates; totals and peaks are exact. `None`: every stack was recorded.
    pub stack_sample_bytes: Option<NonZeroU64>,
}

impl Capture {
    /// Describes a capture that was read.
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
