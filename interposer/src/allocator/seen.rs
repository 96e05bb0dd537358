//! What of the allocator is seen, as the capture says it.

use super::found;
use crate::definitions;
use crate::session::Session;

/// Writes what is seen of the allocator.
pub(super) fn tell(session: &'static Session) {
    let allocator = &session.allocator;
    let (blocks, traces) = (allocator.sites.sees(), allocator.trace.is_on());
    let calls = found::are_taken();
    let can_trace = traces || allocator.trace.is_idle() && found::attach_trace().is_some();
    let words = [
        ("requested", blocks.requested || traces),
        ("stream", blocks.stream || traces),
        ("record_stream", calls),
        ("released", calls && can_trace),
        ("pool", calls && can_trace),
        ("calls", calls),
        ("settings", calls),
    ];
    let seen = words.into_iter().filter(|(_, seen)| *seen);
    let seen: Vec<_> = seen.map(|(word, _)| word).collect();
    definitions::write_seen(session.writer, &seen.join(" "));
}
