//! Facts of the process that ranks are not compared by.

use gpumem_analyzer::replay::Replay;
use gpumem_capture::{Coordinates, ProcessKey};

/// The process, as its capture describes it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Process {
    /// The names of its job.
    pub job: Option<String>,
    /// Ranks of the job.
    pub world_size: Option<u64>,
    /// The coordinates of its rank, in the given order.
    pub coordinates: Option<Coordinates>,
    /// The driver's version.
    pub driver_version: Option<String>,
}

impl Process {
    /// The facts read so far.
    pub(crate) fn of(replay: &Replay) -> Self {
        let fact = |key: &str| replay.names.fact(key).map(str::to_owned);
        Self {
            job: fact(ProcessKey::JOB),
            world_size: fact(ProcessKey::WORLD_SIZE).and_then(|size| size.parse().ok()),
            coordinates: fact(ProcessKey::COORDINATES)
                .as_deref()
                .and_then(Coordinates::parse),
            driver_version: fact(ProcessKey::DRIVER_VERSION),
        }
    }
}
