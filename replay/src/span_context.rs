//! The span context of an event: its step, its phase, its range.

use gpumem_capture::ThreadId;

use crate::ids::StackKey;
use crate::names::Names;
use crate::serialize::serialize;
use crate::spans::Spans;

/// As the replay sees it at the event itself: what it means is known at the capture's end only.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SpanContext {
    /// Steps that had ended.
    pub steps: u64,
    /// The event's stacks, and what it was for.
    pub stacks: StackKey,
    /// The innermost range.
    pub range: Option<u32>,
}

serialize! {
    SpanContext { steps, stacks, range }
}

impl SpanContext {
    /// That of an event with these stacks on this thread.
    pub(crate) fn at(names: &Names, spans: &Spans, stacks: StackKey, thread: ThreadId) -> Self {
        let backward = names.backwards.contains_key(&stacks.py);
        Self {
            steps: spans.steps,
            stacks,
            range: spans.range(thread, backward),
        }
    }
}
