//! One module per tool: its arguments and its answer.

pub mod captures;
pub mod diff;
pub mod hints;
pub mod leaks;
pub mod ledger;
pub mod lines;
pub mod plan;
pub mod source;
pub mod summary;
pub mod tree;
pub mod whatif;
pub mod why;
