//! The files of the analyzer: [`write`] makes them, [`read`] opens those that a user or this system names, and
//! [`foreign`] those that a capture names. Clippy refuses other ways to create or open files in the analyzer
//! (clippy.toml).
//!
//! A capture from elsewhere is hostile input: it must not choose what is overwritten, and what is shown of this machine.
#![forbid(unsafe_code)]
#![cfg_attr(test, allow(clippy::disallowed_methods))]

pub mod foreign;
pub mod read;
pub mod write;
