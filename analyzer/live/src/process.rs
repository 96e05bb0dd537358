//! The facts of the process in a capture.

use gpumem_analyzer::ranks::Coordinates;
use gpumem_analyzer::replay::Replay;
use gpumem_capture::ProcessKey;

/// The process, as its capture describes it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Process {
    /// Its host.
    pub host: Option<String>,
    /// The names of its job.
    pub job: Option<String>,
    /// Its rank.
    pub rank: Option<u64>,
    /// Ranks of the job.
    pub world_size: Option<u64>,
    /// Its local rank.
    pub local_rank: Option<u64>,
    /// The parallelism coordinates that its peers share.
    pub peers: Option<Coordinates>,
    /// The driver's version.
    pub driver_version: Option<String>,
}

impl Process {
    /// The facts read so far.
    pub(crate) fn of(replay: &Replay) -> Self {
        let fact = |key: &str| replay.names.fact(key).map(str::to_owned);
        let number = |key: &str| replay.names.fact(key)?.parse().ok();
        Self {
            host: fact(ProcessKey::HOST),
            job: fact(ProcessKey::JOB),
            rank: number(ProcessKey::RANK),
            world_size: number(ProcessKey::WORLD_SIZE),
            local_rank: number(ProcessKey::LOCAL_RANK),
            peers: Coordinates::of(replay).map(|of| of.of_peers()),
            driver_version: fact(ProcessKey::DRIVER_VERSION),
        }
    }
}
