//! interposer
pub mod python;
pub mod stacks;
