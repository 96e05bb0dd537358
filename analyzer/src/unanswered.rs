//! Why a capture has no result for a query, and what to query instead.

use gpumem_capture::{Nanos, Seq};

use crate::replay::{At, Query};
use crate::session::Session;
use crate::units::time;

/// One line: what is missing, and what to name instead.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Unanswered {
    /// A bounded capture has evicted it.
    #[error(
        "a bounded capture keeps only its newest records, here from event {} (step {step}): name a later one, the peak or the end",
        from.0
    )]
    NotKept {
        /// The first event in the capture.
        from: Seq,
        /// The first step in the capture.
        step: u64,
    },
    /// There are fewer events.
    #[error("event {} does not exist, the last is {}: name an earlier one", asked.0, last.0)]
    NoEvent {
        /// The requested event.
        asked: Seq,
        /// The last event.
        last: Seq,
    },
    /// The capture ended earlier.
    #[error(
        "no event exists after {}, the last is at {}: name an earlier time",
        time(*asked),
        time(*last)
    )]
    NoTime {
        /// The requested time.
        asked: Nanos,
        /// The time of the last event.
        last: Nanos,
    },
    /// The program has no steps.
    #[error("the capture has no steps: name an event or a time")]
    NoSteps,
    /// The step did not end.
    #[error("step {asked} did not end, {ended} steps did: name one of those")]
    NoStep {
        /// The requested step.
        asked: u64,
        /// How many ended.
        ended: u64,
    },
    /// The step did not begin.
    #[error("step {asked} does not exist, {ended} steps ended: name one of those or the next one")]
    NotBegun {
        /// The requested step.
        asked: u64,
        /// How many ended.
        ended: u64,
    },
}

/// That a bounded capture lacks `what`, from before its first record. `None`: the capture has all of it.
pub fn lacks_older(session: &Session, what: &str) -> Option<String> {
    let from = session.replay.restored?.from.0;
    Some(format!(
        "a bounded capture keeps only its newest records: {what} before event {from} are missing"
    ))
}

impl Unanswered {
    /// The error for something that a bounded capture has evicted.
    pub fn not_kept(session: &Session) -> Self {
        let restored = session.replay.restored;
        let steps = restored.map_or(0, |restored| restored.steps);
        Self::NotKept {
            from: restored.map_or(Seq(0), |restored| restored.from),
            step: steps.saturating_add(2),
        }
    }

    /// Why a session that was read for this query has no result for it; `None` if it has one.
    pub fn by(session: &Session, query: Query) -> Option<Self> {
        let replay = &session.replay;
        let ended = replay.spans.steps;
        match (query.moment, query.step) {
            _ if !replay.can_answer(query) => Some(Self::not_kept(session)),
            (At::Event(asked), _) if asked > replay.last_seq => Some(Self::NoEvent {
                asked,
                last: replay.last_seq,
            }),
            (At::Time(asked), _) if asked > replay.last => Some(Self::NoTime {
                asked,
                last: replay.last,
            }),
            (At::Step(_), _) if replay.until().is_none() && ended == 0 => Some(Self::NoSteps),
            (At::Step(asked), _) if replay.until().is_none() => Some(Self::NoStep { asked, ended }),
            (_, Some(asked)) if asked > ended.saturating_add(1) => {
                Some(Self::NotBegun { asked, ended })
            }
            _ => None,
        }
    }
}
