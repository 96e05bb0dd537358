//! What only a second pass over a capture gives, because its point in time is known at the end of the first one.

use gpumem_capture::Record;

use super::CaptureFile;
use crate::replay::{At, Effect, OutOfMemory, Replay};
use crate::session::{Error, Session};
use crate::views::{Asked, Cause, CauseWatch, Ledger, LedgerWatch, ReplaysOfRun};
use crate::watch::Watch;

/// Ledgers, and the cause of a failure. What the first pass kept needs no second one.
pub struct SecondPass<'a> {
    first: &'a Session,
    ledgers: Vec<LedgerWatch<'a>>,
    cause: Option<(u64, CauseWatch)>,
}

/// What a second pass gave.
#[derive(Debug, Default)]
pub struct Later {
    /// The ledgers, in the order in which they were requested: of each device that has one.
    pub ledgers: Vec<Vec<Ledger>>,
    /// The cause; `None`: it was not requested.
    pub cause: Option<Cause>,
}

impl<'a> SecondPass<'a> {
    /// After the first pass.
    pub fn after(first: &'a Session) -> Self {
        Self {
            first,
            ledgers: Vec::new(),
            cause: None,
        }
    }

    /// With ledgers.
    #[must_use]
    pub fn ledgers(mut self, asked: Asked) -> Self {
        let watch = LedgerWatch::new(&self.first.replay, asked);
        self.ledgers.push(watch);
        self
    }

    /// With the cause of a failure, which has this number in the capture.
    #[must_use]
    pub fn cause(mut self, failure: Option<(u64, OutOfMemory)>) -> Self {
        let watch = |failure| CauseWatch::new(&self.first.replay, failure);
        self.cause = failure.map(|(number, failure)| (number, watch(failure)));
        self
    }

    /// Whether there is anything that the first pass did not keep.
    pub fn is_needed(&self) -> bool {
        self.cause.is_some() || self.ledgers.iter().any(LedgerWatch::needs_pass)
    }

    /// Makes the pass if it is needed.
    ///
    /// # Errors
    /// Only if the capture cannot be read again.
    pub fn read(
        mut self,
        capture: &mut CaptureFile,
        replays: Option<&ReplaysOfRun>,
    ) -> Result<Later, Error> {
        let query = match &self.cause {
            Some((_, watch)) => watch.query(),
            None => At::End.into(),
        };
        let last = match self.is_needed() {
            true => Some(capture.read_watched(query, &mut self)?),
            false => None,
        };
        Ok(self.finish(last.as_ref().map(|last| &last.replay), replays))
    }

    /// What the pass gave; `last` is `None` if none was made. With a cause, it was made for [`CauseWatch::query`].
    pub fn finish(self, last: Option<&Replay>, replays: Option<&ReplaysOfRun>) -> Later {
        let cause = self.cause.zip(last);
        Later {
            ledgers: self
                .ledgers
                .into_iter()
                .map(|watch| watch.finish(last))
                .collect(),
            cause: cause.map(|((number, watch), last)| watch.finish(last, number, replays)),
        }
    }
}

impl Watch for SecondPass<'_> {
    fn before(&mut self, replay: &Replay, record: &Record<'_>) {
        for watch in &mut self.ledgers {
            watch.before(replay, record);
        }
    }

    fn after(&mut self, replay: &Replay, record: Record<'_>, effect: Effect) {
        for watch in &mut self.ledgers {
            watch.after(replay, record, effect);
        }
        if let Some((_, watch)) = &mut self.cause {
            watch.after(replay, record, effect);
        }
    }
}
