//! The help: what each key does.

/// The keys of the view, with their effects.
pub(super) const KEYS: [(&str, &str); 20] = [
    (
        "[ ]",
        "go one column of the chart back or forward; also Left Right, a click",
    ),
    ("{ }", "go ten columns; also with Shift"),
    (
        "p",
        "go to the peak so far of the level, on this GPU or on any",
    ),
    ("o O", "go to the next failure, or the previous one"),
    ("n Space", "go back to now; Space pauses there"),
    ("Enter", "show the row's source and stacks"),
    (
        "a",
        "show the breakdown of the cards' memory, steps and phases",
    ),
    ("f", "list failures and their causes; Enter goes to one"),
    ("e", "write the page for a browser next to the capture"),
    ("Tab", "switch rows: lines, categories or modules"),
    (
        "l",
        "switch the level: tensors, CUDA, pinned host memory, physical memory",
    ),
    ("g", "show only one GPU, the next one, or all"),
    (
        "s",
        "switch the order: bytes, at the peak, growth per step, allocations, blocks, name",
    ),
    (
        "/",
        "show only rows that contain what you type; Enter keeps the filter, Esc ends it",
    ),
    ("Up Down", "choose a row; also j k, the wheel and a click"),
    ("PgUp PgDn", "go one page of rows up or down"),
    ("Home End", "go to the first row, or the last"),
    ("Esc", "back"),
    ("?", "this help"),
    ("q", "quit; the program continues"),
];

/// The keys of a folder's view.
pub(super) const FOLDER_KEYS: [(&str, &str); 9] = [
    (
        "Enter",
        "open the view of this rank, which has more keys; Esc returns",
    ),
    ("s", "switch the order: rank, difference from peers, peak"),
    ("Up Down", "choose a rank; also j k"),
    ("PgUp PgDn", "go one page of ranks up or down"),
    ("Home End", "go to the first rank, or the last"),
    ("!", "marks a rank that differs from its peers"),
    ("Esc", "back"),
    ("?", "this help"),
    ("q", "quit; the programs continue"),
];
