//! How ranks ended: which ran out of memory first, and which ended as a consequence.

use schemars::JsonSchema;
use serde::Serialize;

use super::clocks::Clock;
use crate::account::{Ending, duration};
use crate::session::Session;

/// How and when a rank ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct End {
    /// How the rank ended.
    pub ended: Ended,
    /// Time of the failed allocation, or of the end of the process, in nanoseconds since 1970-01-01 UTC. If the
    /// process is running or was killed: the time of its last event. Wrong clocks are not corrected.
    pub at_unix_ns: u64,
    /// Bytes of the allocation that failed; absent if the rank did not run out of memory.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub wanted_bytes: Option<u64>,
}

impl End {
    /// Corrects the time if the clock of its machine is wrong.
    pub(super) fn by_clocks(self, host: Option<&str>, clocks: &[Clock]) -> Self {
        let clock = clocks.iter().find(|clock| Some(&*clock.host) == host);
        let ahead = clock.map_or(0, |clock| clock.ahead_ns);
        Self {
            at_unix_ns: self
                .at_unix_ns
                .saturating_add_signed(ahead.saturating_neg()),
            ..self
        }
    }
}

/// How a rank ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Ended {
    /// The process exited normally.
    #[default]
    Clean,
    /// The process has not ended.
    Running,
    /// The process was killed, or ended without running its exit handlers.
    Killed,
    /// An allocation failed because memory was exhausted, and the program received the error.
    OutOfMemory,
}

impl Ended {
    /// How and when the rank of a capture ended.
    pub fn of(session: &Session) -> End {
        let (replay, header) = (&session.replay, &session.header);
        let after_start = |nanos: u64| header.started_wall_ns.saturating_add(nanos);
        let failure = replay.main_failure().map(|(_, failure)| failure);
        if let Some(failure) = failure.filter(|failure| failure.is_exception()) {
            return End {
                ended: Self::OutOfMemory,
                at_unix_ns: after_start(failure.event.time.0),
                wanted_bytes: Some(failure.event.bytes),
            };
        }
        let ended = match session.account.ending {
            Ending::Clean => Self::Clean,
            Ending::Running => Self::Running,
            Ending::Killed => Self::Killed,
        };
        End {
            ended,
            at_unix_ns: after_start(duration(header, replay).0),
            wanted_bytes: None,
        }
    }
}

/// How the ranks of a job ended. Times are corrected by the offsets of wrong clocks.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Endings {
    /// Ranks that ran out of memory, in the order of their failures.
    pub out_of_memory: Vec<u64>,
    /// Other ranks that were killed or ended without running their exit handlers, in the order of their ends.
    pub killed: Vec<u64>,
    /// Number of ranks that have not ended.
    pub running: u64,
    /// Number of ranks that exited normally.
    pub clean: u64,
    /// Nanoseconds from the first rank that ran out of memory or was killed to the last end of any rank; 0 if no rank
    /// did.
    pub first_to_last_ns: u64,
}

impl Endings {
    /// Summarizes the ends of ranks, given with their numbers.
    pub fn of<'a>(ends: impl Iterator<Item = (u64, &'a End)>) -> Self {
        let mut all: Vec<_> = ends.collect();
        all.sort_by_key(|(rank, end)| (end.at_unix_ns, *rank));
        let by = |ended| {
            let of = all.iter().filter(move |(_, end)| end.ended == ended);
            of.map(|(rank, _)| *rank).collect::<Vec<_>>()
        };
        let is_death = |end: &End| matches!(end.ended, Ended::OutOfMemory | Ended::Killed);
        let first = all.iter().find(|(_, end)| is_death(end));
        let last = all.last();
        Self {
            out_of_memory: by(Ended::OutOfMemory),
            killed: by(Ended::Killed),
            running: by(Ended::Running).len() as u64,
            clean: by(Ended::Clean).len() as u64,
            first_to_last_ns: match (first, last) {
                (Some((_, first)), Some((_, last))) => last.at_unix_ns - first.at_unix_ns,
                _ => 0,
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_that_is_ahead_makes_nobody_the_last() {
        let end = |at_unix_ns| End {
            ended: Ended::Killed,
            at_unix_ns,
            wanted_bytes: None,
        };
        let clock = Clock {
            host: "b".into(),
            ahead_ns: 500,
            scatter_ns: 0,
            steps: 9,
        };
        let of = |host, at| end(at).by_clocks(Some(host), std::slice::from_ref(&clock));
        let ends = [of("a", 900), of("b", 1000)];
        let found = Endings::of((0..).zip(&ends));
        assert_eq!((found.killed, found.first_to_last_ns), (vec![1, 0], 400));
    }

    #[test]
    fn the_first_that_ran_out_of_memory_is_told_from_those_that_followed() {
        let end = |ended, at_unix_ns| End {
            ended,
            at_unix_ns,
            wanted_bytes: None,
        };
        let ends = [
            end(Ended::Killed, 900),
            end(Ended::OutOfMemory, 700),
            end(Ended::OutOfMemory, 500),
            end(Ended::Clean, 400),
        ];
        let found = Endings::of(
            ends.iter()
                .enumerate()
                .map(|(rank, end)| (rank as u64, end)),
        );
        assert_eq!(found.out_of_memory, [2, 1]);
        assert_eq!((found.killed, found.clean, found.running), (vec![0], 1, 0));
        assert_eq!(found.first_to_last_ns, 400);
    }
}
