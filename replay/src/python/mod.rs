//! What the recorder left undone for Python stacks: from an instruction's offset to its line.

mod lines;

pub use lines::line;
