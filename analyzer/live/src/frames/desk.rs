//! The exchange between the thread that makes frames and the threads that show them.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::ask::Ask;
use super::frame::Frame;

/// The state that both sides share.
pub(crate) struct Desk {
    on: Mutex<On>,
    pub(crate) changed: Condvar,
    every: Duration,
}

pub(crate) struct On {
    pub(crate) frame: Option<Arc<Frame>>,
    pub(crate) ask: Ask,
    /// Set if the requested content differs from that of the newest frame.
    pub(crate) is_asked_anew: bool,
    pub(crate) is_over: bool,
}

impl Desk {
    pub(crate) fn new(ask: Ask, every: Duration) -> Self {
        Self {
            on: Mutex::new(On {
                frame: None,
                ask,
                is_asked_anew: false,
                is_over: false,
            }),
            changed: Condvar::new(),
            every,
        }
    }

    pub(crate) fn on(&self) -> MutexGuard<'_, On> {
        self.on.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn every(&self) -> Duration {
        self.every
    }

    pub(crate) fn ask(&self) -> Ask {
        let mut on = self.on();
        on.is_asked_anew = false;
        on.ask
    }

    pub(crate) fn lay_out(&self, frame: Frame) {
        self.on().frame = Some(Arc::new(frame));
        self.changed.notify_all();
    }

    /// Waits until other content is requested; returns whether to continue.
    pub(crate) fn wait_asked(&self) -> bool {
        let on = self.on();
        let waits = |on: &mut On| !on.is_over && !on.is_asked_anew;
        let waited = self.changed.wait_while(on, waits);
        !waited.unwrap_or_else(PoisonError::into_inner).is_over
    }

    /// Waits for the time between two frames, or until other content is requested; returns whether to continue.
    pub(crate) fn wait(&self) -> bool {
        let on = self.on();
        let waits = |on: &mut On| !on.is_over && !on.is_asked_anew;
        let waited = self.changed.wait_timeout_while(on, self.every, waits);
        let (on, _) = waited.unwrap_or_else(PoisonError::into_inner);
        !on.is_over
    }
}
