//! What each key does.

/// Keys and what they do, as the help has them.
pub(super) const KEYS: [(&str, &str); 20] = [
    (
        "[ ]",
        "a column of the chart back and forth, also Left Right, a click",
    ),
    ("{ }", "ten columns, also with Shift"),
    ("p", "the peak so far of the level, on this GPU or on any"),
    ("o O", "the next failure, the one before"),
    (
        "n Space",
        "now: back to what the program holds; Space stops there",
    ),
    ("Enter", "the row's source and stacks"),
    (
        "a",
        "the account: what the cards' memory consists of, steps, phases",
    ),
    ("f", "failures and why; Enter goes there"),
    ("e", "writes the page for a browser beside the capture"),
    ("Tab", "rows of lines, categories or modules"),
    (
        "l",
        "the level: tensors, CUDA's, pinned host memory, what the card gave",
    ),
    ("g", "only this GPU, the next one, or all"),
    (
        "s",
        "the order: bytes, at the peak, growth per step, allocations, blocks, name",
    ),
    (
        "/",
        "rows whose text contains what you type; Enter keeps it, Esc ends it",
    ),
    ("Up Down", "the row, also j k, the wheel and a click"),
    ("PgUp PgDn", "a page of rows"),
    ("Home End", "the first row, the last"),
    ("Esc", "back"),
    ("?", "this help"),
    ("q", "leave; the program goes on"),
];

/// The same of a folder's view.
pub(super) const FOLDER_KEYS: [(&str, &str); 9] = [
    (
        "Enter",
        "this rank's own view, which has more keys; Esc returns",
    ),
    ("s", "the order: rank, difference from peers, peak"),
    ("Up Down", "the rank, also j k"),
    ("PgUp PgDn", "a page of ranks"),
    ("Home End", "the first rank, the last"),
    ("!", "marks a rank that differs from its peers"),
    ("Esc", "back"),
    ("?", "this help"),
    ("q", "leave; programs go on"),
];
