//! The caller behind a change, and the event that describes the change.

use gpumem_capture::{ApiId, Event, EventKind, Level, StackId, ThreadId};

/// The caller behind a change: the fields that each of its events has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Origin {
    /// The thread that called.
    pub thread: ThreadId,
    /// The function that it called.
    pub api: ApiId,
    /// Its Python stack.
    pub py_stack: StackId,
    /// Its native stack.
    pub native_stack: StackId,
}

impl Origin {
    /// An event without time and figures.
    pub(crate) fn event(self, kind: EventKind, level: Level) -> Event {
        Event {
            thread: self.thread,
            kind,
            level,
            api: self.api,
            py_stack: self.py_stack,
            native_stack: self.native_stack,
            ..Event::default()
        }
    }

    /// The same caller, without stacks.
    pub(crate) fn without_stacks(self) -> Self {
        Self {
            py_stack: StackId::NONE,
            native_stack: StackId::NONE,
            ..self
        }
    }
}
