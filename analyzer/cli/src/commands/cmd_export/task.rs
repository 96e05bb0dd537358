//! The input of all formats.

use std::cell::RefCell;
use std::path::{Path, PathBuf};

use gpumem_analyzer::export::Steps;
use gpumem_analyzer::replay::At;
use gpumem_analyzer::session::Session;
use gpumem_analyzer::views::{ByStack, at, level_or_default};
use gpumem_analyzer::watch::Observer;
use gpumem_capture::Level;

use super::args::Args;
use crate::commands::read::Opened;

/// A capture that was read once, and what to write of it.
pub(super) struct Task<'a> {
    pub args: &'a Args,
    pub file: &'a Path,
    pub capture: RefCell<Opened>,
    pub first: &'a Session,
    pub steps: Steps,
    /// A folder for temporary files.
    pub folder: PathBuf,
}

impl Task<'_> {
    /// The requested level, or the default one.
    pub fn level(&self) -> Level {
        level_or_default(self.args.part.level.map(Into::into), &self.first.replay)
    }

    /// `the tensor level at the peak, GPU 0`.
    pub fn said(&self, moment: At) -> String {
        format!(
            "the {} level {}{}",
            self.level(),
            at(moment),
            self.args.part.said()
        )
    }

    /// The memory of stacks at this level.
    pub fn held(&self, session: &Session, moment: At) -> ByStack {
        ByStack::at(
            &session.replay,
            self.level(),
            moment,
            &self.args.part.select(),
        )
    }

    /// Reads the capture again.
    pub fn again(&self, observer: &mut Observer<'_>) -> anyhow::Result<()> {
        let mut capture = self.capture.borrow_mut();
        capture.read_with(At::End, observer).map(drop)
    }
}
