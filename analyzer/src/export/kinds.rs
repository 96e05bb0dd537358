//! Kinds of events: their words in rows, and which fields an event of each kind has.

use gpumem_capture::EventKind;

/// The word for a kind that this analyzer does not know.
pub(super) const UNKNOWN: &str = "unknown";

/// The kinds and their words, the most frequent first.
pub(super) const KINDS: [(EventKind, &str); 26] = [
    (EventKind::ALLOC, "alloc"),
    (EventKind::FREE, "free"),
    (EventKind::CANCEL, "cancel"),
    (EventKind::MAP, "map"),
    (EventKind::UNMAP, "unmap"),
    (EventKind::OUT_OF_MEMORY, "out_of_memory"),
    (EventKind::CONTEXT, "context"),
    (EventKind::CONTEXT_END, "context_end"),
    (EventKind::MODULE_LOAD, "module_load"),
    (EventKind::MODULE_UNLOAD, "module_unload"),
    (EventKind::SCOPE_BEGIN, "scope_begin"),
    (EventKind::SCOPE_END, "scope_end"),
    (EventKind::STEP, "step"),
    (EventKind::SAMPLE, "sample"),
    (EventKind::ALIAS, "alias"),
    (EventKind::ALIAS_END, "alias_end"),
    (EventKind::RESIZE, "resize"),
    (EventKind::CARD, "card"),
    (EventKind::ADDRESS, "address"),
    (EventKind::ADDRESS_END, "address_end"),
    (EventKind::NODE, "node"),
    (EventKind::RANGE_BEGIN, "range_begin"),
    (EventKind::RANGE_END, "range_end"),
    (EventKind::PHASE_BEGIN, "phase_begin"),
    (EventKind::PHASE_END, "phase_end"),
    (EventKind::MARK, "mark"),
];

/// The word for a kind.
pub(super) fn word(kind: EventKind) -> &'static str {
    let known = KINDS.iter().find(|(of, _)| *of == kind);
    known.map_or(UNKNOWN, |(_, word)| word)
}

/// Whether it is a mark of a scope, a step, a range or a phase.
pub(super) fn is_mark(kind: EventKind) -> bool {
    matches!(
        kind,
        EventKind::SCOPE_BEGIN
            | EventKind::SCOPE_END
            | EventKind::STEP
            | EventKind::RANGE_BEGIN
            | EventKind::RANGE_END
            | EventKind::PHASE_BEGIN
            | EventKind::PHASE_END
            | EventKind::MARK
    )
}

/// Whether an event of this kind is at a level.
pub(super) fn has_level(kind: EventKind) -> bool {
    !is_mark(kind) && kind != EventKind::SAMPLE && kind != EventKind::CARD
}

/// Whether an event without a live block has stacks. The stacks of frees are not kept.
pub(super) fn has_stacks(kind: EventKind) -> bool {
    has_level(kind) && kind != EventKind::FREE
}

/// Whether a block becomes live or ends with it.
pub(super) fn is_of_block(kind: EventKind) -> bool {
    matches!(kind, EventKind::ALLOC | EventKind::FREE | EventKind::CANCEL)
}
