//! gpumem.toml, and what it and the options of `ci` have in common.

pub mod file;
pub mod quantities;
