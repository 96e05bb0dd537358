//! The last frame of a capture that is read once.

use std::path::Path;
use std::sync::Arc;

use gpumem_analyzer::ranks::RankRow;
use gpumem_analyzer::replay::Replay;
use gpumem_analyzer::session::Session;
use gpumem_capture::Record;

use super::ask::Ask;
use super::baseline::Baselines;
use super::frame::{self, Figures, Frame, State};
use super::steps::Steps;

/// Observes a reading.
#[derive(Debug, Default)]
pub struct Last {
    steps: Steps,
}

impl Last {
    /// Takes in a record after the replay took it in.
    pub fn observe(&mut self, replay: &Replay, record: &Record<'_>) {
        self.steps.observe(replay, record);
    }

    /// The frame of the capture at `path`, whose figures are those at its end.
    pub fn frame(self, path: &Path, session: &Session) -> Frame {
        let (replay, header) = (&session.replay, &session.header);
        let state = match header.is_running() {
            true => State::Running,
            false => frame::ending(header, replay.last),
        };
        let ask = Ask::default();
        let table = frame::table(replay, ask, &Baselines::default());
        let row = Arc::new(RankRow::so_far(path, header, replay));
        let figures = Figures::of(replay, &self.steps);
        let of = (replay, header, row);
        Frame {
            exact: Some(session.account.is_exact()),
            lost: Some(session.integrity.events_lost),
            ..figures.frame(of, state, Vec::new(), (ask, Arc::new(table)))
        }
    }
}
