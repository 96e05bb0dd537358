//! The span context of an event: its step, phase and range.

use gpumem_capture::ThreadId;

use crate::ids::StackKey;
use crate::names::Names;
use crate::serialize::serialize;
use crate::spans::Spans;

/// The span context as known at the event; its meaning is known only at the capture's end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SpanContext {
    /// Steps that had ended.
    pub steps: u64,
    /// The event's stacks and purpose.
    pub stacks: StackKey,
    /// The innermost range.
    pub range: Option<u32>,
}

serialize! {
    SpanContext { steps, stacks, range }
}

impl SpanContext {
    /// The span context of an event with these stacks on this thread.
    pub(crate) fn at(names: &Names, spans: &Spans, stacks: StackKey, thread: ThreadId) -> Self {
        let backward = names.backwards.contains_key(&stacks.py);
        Self {
            steps: spans.steps,
            stacks,
            range: spans.range(thread, backward),
        }
    }
}
