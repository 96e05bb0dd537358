//! The part of Python stacks that the recorder leaves to the analyzer: the line of an instruction's
//! offset.

mod lines;

pub use lines::line;
