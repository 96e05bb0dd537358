//! A thread that follows a capture.

use std::path::Path;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use gpumem_analyzer::ask as captures;
use gpumem_capture::{OpenError, Reader};

use super::ask::Ask;
use super::desk::{Desk, On};
use super::follower::Follower;
use super::frame::{Frame, State};
use super::past::Past;
use super::place::{OTHER, Place};

/// A capture that is followed on its own thread.
pub struct Watch {
    desk: Arc<Desk>,
    past: Past,
}

impl Watch {
    /// Follows the capture at `path`; a new frame is made after every `every`. Nothing is written to the capture.
    ///
    /// # Errors
    /// If the file is not a capture or cannot be opened.
    pub fn start(path: &Path, ask: Ask, every: Duration) -> Result<Self, OpenError> {
        Self::with(path, Some(ask), every)
    }

    /// The same without tables, baselines and memory over time, for many captures at once.
    pub(crate) fn without_table(path: &Path, every: Duration) -> Result<Self, OpenError> {
        Self::with(path, None, every)
    }

    fn with(path: &Path, ask: Option<Ask>, every: Duration) -> Result<Self, OpenError> {
        let place = Place::of(path);
        let mut reader = captures::reader(path)?;
        if ask.is_none() {
            // No additional threads decode.
            reader.decode_on(0);
        }
        let past = Past::new(path, reader.header().nonce);
        let desk = Arc::new(Desk::new(ask.unwrap_or_default(), every));
        let on_desk = desk.clone();
        let has_table = ask.is_some();
        std::thread::spawn(move || follow(reader, place, &on_desk, has_table));
        Ok(Self { desk, past })
    }

    /// The newest frame; `None` before the first one.
    pub fn frame(&self) -> Option<Arc<Frame>> {
        self.desk.on().frame.clone()
    }

    /// Past points in time of the capture.
    pub fn past(&self) -> &Past {
        &self.past
    }

    /// Sets the content of later frames.
    pub fn ask(&self, ask: Ask) {
        let mut on = self.desk.on();
        if on.ask != ask {
            (on.ask, on.is_asked_anew) = (ask, true);
            self.desk.changed.notify_all();
        }
    }

    /// Waits for a frame for which `wanted` returns true, at most for `limit`.
    pub fn wait(&self, limit: Duration, wanted: impl Fn(&Frame) -> bool) -> Option<Arc<Frame>> {
        let is_wanted = |on: &On| on.frame.as_ref().is_some_and(|frame| wanted(frame));
        let on = self.desk.on();
        let waited = self
            .desk
            .changed
            .wait_timeout_while(on, limit, |on| !is_wanted(on));
        let (on, _) = waited.unwrap_or_else(PoisonError::into_inner);
        on.frame.clone().filter(|frame| wanted(frame))
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        // The thread ends later by itself: it may be reading a long capture.
        self.desk.on().is_over = true;
        self.desk.changed.notify_all();
    }
}

fn follow(mut reader: Reader, place: Place, desk: &Arc<Desk>, has_table: bool) {
    let path = place.path.clone();
    let of = (reader.header().clone(), reader.progress());
    let mut follower = Follower::new(of, place, desk.clone(), has_table);
    let last = match reader.follow(&mut follower) {
        // Its header now has the program's end.
        Ok(Some(integrity)) => {
            follower.lost(integrity.events_lost);
            match captures::header(&path) {
                Ok(again) if again.nonce == reader.header().nonce => follower.ending(&again),
                _ => State::Stopped(follower.file_changed().unwrap_or(OTHER).into()),
            }
        }
        Ok(None) => match follower.changed {
            Some(why) => State::Stopped(why.into()),
            None => return,
        },
        Err(error) => {
            let changed = follower.file_changed();
            State::Stopped(changed.map_or(error.to_string(), str::to_owned))
        }
    };
    // No more records come: a frame is made when other content is requested.
    follower.publish(last.clone());
    while desk.wait_asked() {
        follower.publish(last.clone());
    }
}
