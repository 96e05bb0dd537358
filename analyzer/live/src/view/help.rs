//! What each key does.

/// Keys and what they do, as the help has them.
pub(super) const KEYS: [(&str, &str); 14] = [
    ("Tab", "rows of lines, categories or modules"),
    (
        "l",
        "the level: tensors, CUDA's, pinned host memory, what the card gave",
    ),
    ("p", "what is live now, or was live at the peak"),
    ("s", "the order: bytes, blocks, name"),
    ("g", "only this GPU, the next one, or all"),
    (
        "/",
        "rows whose text contains what you type; Enter keeps it, Esc ends it",
    ),
    ("Up Down", "the row, also j k, the wheel and a click"),
    ("PgUp PgDn", "a page of rows"),
    ("Home End", "the first row, the last"),
    ("Space", "stop here; again to follow"),
    ("f", "failures: allocations that found no memory"),
    ("Esc", "back"),
    ("?", "this help"),
    ("q", "leave; the program goes on"),
];
