//! One module for each tool: its arguments, and what it finds.

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
