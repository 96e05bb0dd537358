//! Captures of CUDA graphs in the recorded run.

use gpumem_capture::{Event, ThreadId};

/// The threads that are capturing.
#[derive(Debug, Default)]
pub(crate) struct Captures(Vec<ThreadId>);

impl Captures {
    pub(crate) fn begin(&mut self, event: &Event) {
        self.0.push(event.thread);
    }

    pub(crate) fn end(&mut self) {
        self.0.pop();
    }

    /// Whether an event came in one: on the thread that captures, or, as a backward pass, on another one for the graph's
    /// pool.
    pub(crate) fn have(&self, event: &Event, is_of_pool: bool) -> bool {
        !self.0.is_empty() && (is_of_pool || self.0.contains(&event.thread))
    }
}
