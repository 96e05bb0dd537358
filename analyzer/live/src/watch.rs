//! A thread that follows a capture.

use std::path::Path;
use std::sync::{Arc, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use gpumem_capture::{OpenError, Reader};

use crate::ask::Ask;
use crate::desk::{Desk, On};
use crate::follower::Follower;
use crate::frame::{Frame, State};

/// A capture that is watched, by a thread of its own.
pub struct Watch {
    desk: Arc<Desk>,
    thread: Option<JoinHandle<()>>,
}

impl Watch {
    /// Watches the capture at `path`; a new frame comes `every` so often. Nothing is written to the capture.
    ///
    /// # Errors
    /// Where the file is no capture that can be opened.
    pub fn start(path: &Path, ask: Ask, every: Duration) -> Result<Self, OpenError> {
        let reader = Reader::open(path)?;
        let path = path.to_owned();
        let desk = Arc::new(Desk::new(ask, every));
        let on_desk = desk.clone();
        let thread = std::thread::spawn(move || follow(reader, &path, &on_desk));
        Ok(Self {
            desk,
            thread: Some(thread),
        })
    }

    /// The newest frame; `None`: there is none yet.
    pub fn frame(&self) -> Option<Arc<Frame>> {
        self.desk.on().frame.clone()
    }

    /// Has the next frames show this.
    pub fn ask(&self, ask: Ask) {
        let mut on = self.desk.on();
        if on.ask != ask {
            (on.ask, on.is_asked_anew) = (ask, true);
            self.desk.changed.notify_all();
        }
    }

    /// Waits for a frame that `wanted` takes, for so long at most.
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
        self.desk.on().is_over = true;
        self.desk.changed.notify_all();
        if let Some(thread) = self.thread.take() {
            // It has said all that it had to say.
            let _ = thread.join();
        }
    }
}

fn follow(mut reader: Reader, path: &Path, desk: &Arc<Desk>) {
    let mut follower = Follower::new(reader.header().clone(), reader.progress(), desk.clone());
    let last = match reader.follow(&mut follower) {
        // Its head says now how it has ended.
        Ok(Some(integrity)) => {
            follower.lost(integrity.events_lost);
            match Reader::open(path) {
                Ok(again) if again.header().nonce == reader.header().nonce => {
                    follower.ending(again.header())
                }
                _ => State::Stopped("another file is in the capture's place".into()),
            }
        }
        Ok(None) => return,
        Err(error) => State::Stopped(error.to_string()),
    };
    loop {
        follower.publish(last.clone());
        if !desk.wait() {
            return;
        }
    }
}
