//! On whose behalf something changes, and the event that says so.

use gpumem_capture::{ApiId, Event, EventKind, Level, StackId, ThreadId};

/// On whose behalf something changes: the fields that each of its events carries.
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
    /// An event, but for its time and its figures.
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
